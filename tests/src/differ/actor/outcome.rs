//! What came of a call, as text; and errno, which a successful call must leave alone.

use super::addresses;
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

    /// Adds an address.
    pub fn address(&mut self, storage: &libc::sockaddr_storage, length: libc::socklen_t) {
        self.word(addresses::shown(storage, length));
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
