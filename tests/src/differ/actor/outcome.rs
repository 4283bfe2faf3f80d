//! What came of a call, as text; and errno, which a successful call must leave alone.

use std::fmt::Write;

use super::place;
use crate::differ::names;

/// No error has this number.
const MARK: i32 = 4242;

/// The words that are compared.
#[derive(Default)]
pub struct Outcome {
    pub text: String,
}

impl Outcome {
    /// Adds a word.
    pub fn word(&mut self, word: impl AsRef<str>) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(word.as_ref());
    }

    /// Makes the call, and adds its result and what it did to errno.
    pub fn call(&mut self, call: impl FnOnce() -> i64) -> i64 {
        let result = self.quietly(call);
        if result >= 0 {
            self.word(result.to_string());
        }
        result
    }

    /// The same where the result is all there is.
    pub fn only(&mut self, call: impl FnOnce() -> i64) {
        self.call(call);
    }

    /// The same for a result that says nothing (a process, a count that may vary).
    pub fn quietly(&mut self, call: impl FnOnce() -> i64) -> i64 {
        set_errno(MARK);
        let result = call();
        let error = errno();
        if result < 0 {
            self.word(names::error(error));
        } else if error != MARK {
            self.word(format!("errno-touched={}", names::error(error)));
        }
        result
    }

    /// Adds bytes by their number and a sum.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let sum = bytes.iter().fold(0x811c_9dc5u32, |sum, byte| {
            (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        self.word(format!("bytes={}:{sum:08x}", bytes.len()));
    }

    /// Adds an address, with the numbers that differ from run to run replaced.
    pub fn address(&mut self, storage: &libc::sockaddr_storage, length: libc::socklen_t) {
        let mut text = format!("address={length}:{}:", storage.ss_family);
        match i32::from(storage.ss_family) {
            libc::AF_INET if length >= 16 => {
                // SAFETY: the family says that it is one.
                let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
                let ip = v4.sin_addr.s_addr.to_ne_bytes();
                let ip = if ip == place().host {
                    "host".to_owned()
                } else {
                    format!("{ip:?}")
                };
                write!(text, "{ip}:{}", port(u16::from_be(v4.sin_port)))
                    .expect("write to a string");
            }
            libc::AF_INET6 if length >= 28 => {
                // SAFETY: the family says that it is one.
                let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
                let port = port(u16::from_be(v6.sin6_port));
                write!(text, "{:?}:{port}", v6.sin6_addr.s6_addr).expect("write to a string");
            }
            _ => {}
        }
        self.word(text.replace(' ', ""));
    }
}

fn port(port: u16) -> String {
    let base = place().port;
    if port == 0 {
        "none".to_owned()
    } else if (base..base + 16).contains(&port) {
        format!("port{}", port - base)
    } else {
        "ephemeral".to_owned()
    }
}

pub fn errno() -> i32 {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(value: i32) {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = value };
}
