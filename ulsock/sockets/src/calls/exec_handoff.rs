//! The will: what a process that is about to become another program leaves to it.
//!
//! A file in the run directory, named after the process, which stays the same one. It says which of
//! the sockets that stay open are connections of ours and of no other process; the next program, if
//! it loads us, goes on upgrading them. It proves nothing: each socket must have the cookie that the
//! will names.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use libc::c_char;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::{self, pread, pwrite};

use crate::calls::descriptors;
use crate::calls::opening;
use crate::ready::epoll;
use crate::state::control::Locked;
use crate::state::record::{State, flag};
use crate::state::table::{self, Slot};
use os::access;
use os::fds::Transient;
use os::is_regular;
use os::may_grow_to;
use os::tcp;
use os::text::Text;
use rendezvous::rundir::{RunDir, WILL, is_ours};

/// One descriptor that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bequest {
    fd: RawFd,
    connected: bool,
    cookie: u64,
}

const MAGIC: u64 = u64::from_le_bytes(*b"ulsockW1");
/// More are not worth it: they stay on the kernel.
const MOST_LEFT: usize = 1024;
const WORDS: usize = 2;

impl Bequest {
    fn encode(self) -> [u64; WORDS] {
        [
            self.fd as u64 | u64::from(self.connected) << 32,
            self.cookie,
        ]
    }

    fn decode(words: [u64; WORDS]) -> Option<Bequest> {
        let [what, cookie] = words;
        Some(Bequest {
            fd: RawFd::try_from(what & 0xffff_ffff).ok()?,
            connected: what >> 32 == 1,
            cookie,
        })
    }
}

fn name() -> io::Result<Text> {
    Text::format(format_args!("{WILL}.{}", os::pid::get()))
}

/// What would be left if the process became another program now: sockets that stay open, and that
/// nothing but this keeps on the kernel.
pub struct ExecHandoff(Vec<Bequest>);

impl ExecHandoff {
    /// Before the connections are handed over, which pins them.
    pub fn make(stays_open: impl Fn(RawFd) -> bool) -> ExecHandoff {
        let Some(family) = crate::state::process_group::own() else {
            return ExecHandoff(Vec::new());
        };
        let mut left = Vec::new();
        // The next program does not know what is registered there.
        let watched = epoll::in_sets(&stays_open);
        for (fd, slot) in table::all() {
            let Slot::Record(number) = slot else { continue };
            let record = family.record(number);
            let ours = matches!(record.state(), State::Plain | State::Managed)
                && record.is_connection()
                && record.procs.load(Ordering::Acquire) == 1
                && !record.has(flag::PINNED | flag::SLIP)
                && !watched.contains(&number);
            // SAFETY: a number from our own table.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            let cookie = tcp::cookie(socket).ok().filter(|_| ours && stays_open(fd));
            left.extend(cookie.map(|cookie| Bequest {
                fd,
                connected: record.has(flag::CONNECTED),
                cookie,
            }));
        }
        left.truncate(MOST_LEFT);
        ExecHandoff(left)
    }

    /// After they have been handed over: a stand-in is none of ours.
    pub fn leave(mut self) {
        self.0
            .retain(|left| matches!(table::get(left.fd), Slot::Record(_)));
        if self.0.is_empty() {
            return;
        }
        if let Some(control) = Locked::take().as_mut().and_then(Locked::control) {
            // Without it the connections stay on the kernel, no more.
            let _ = self.write(control.dir());
        }
    }

    fn write(&self, dir: &RunDir) -> io::Result<()> {
        let name = name()?;
        dir.remove(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(dir, &*name, flags | OFlags::CLOEXEC, Mode::RUSR)?;
        let file = Transient::new(file);
        let words = std::iter::once(MAGIC).chain(self.0.iter().flat_map(|left| left.encode()));
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        if !may_grow_to(bytes.len() as u64) {
            return Err(io::Errno::FBIG);
        }
        pwrite(&file, &bytes, 0).map(drop)
    }
}

/// Whether the program to be started seems to load us: `environment` is its own, or null for ours.
///
/// # Safety
/// `environment` is null or a list of C strings that ends with null.
pub unsafe fn will_be_read(environment: *const *const c_char) -> bool {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a list of C strings that ends with null, as libc's own is.
    unsafe {
        let mut next = if environment.is_null() {
            environ
        } else {
            environment
        };
        // What cannot be read the kernel refuses.
        while let Some(line) = access::load(next).filter(|line| !line.is_null()) {
            if begins(line, b"LD_PRELOAD=") {
                let rest = (0..).map(|at| line.wrapping_add(at));
                let mut rest = rest.take_while(|at| !begins(*at, b"\0"));
                return rest.any(|at| begins(at, b"ulsock"));
            }
            next = next.wrapping_add(1);
        }
    }
    false
}

/// Does a string of the program's begin like this? One that cannot be read has ended there.
fn begins(line: *const c_char, with: &[u8]) -> bool {
    with.iter().enumerate().all(|(at, byte)| {
        // SAFETY: any byte will do.
        let there = unsafe { access::load(line.wrapping_add(at).cast::<u8>()) };
        there.unwrap_or(0) == *byte
    })
}

/// The exec has failed.
pub fn revoke() {
    if let Some(control) = Locked::take().as_mut().and_then(Locked::control)
        && let Ok(name) = name()
    {
        control.dir().remove(&name);
    }
}

/// Load time: takes over what the program that this process was before has left.
pub fn take_over(run_dir: &Path) {
    let Ok(left) = read(run_dir) else { return };
    let mut known: Vec<(u64, RawFd)> = Vec::new();
    for Bequest {
        fd,
        connected,
        cookie,
    } in left
    {
        // SAFETY: only named; if nothing is open there, the question fails.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        if table::get(fd) != Slot::Foreign || tcp::cookie(socket) != Ok(cookie) {
            continue;
        }
        match known.iter().find(|(other, _)| *other == cookie) {
            Some((_, first)) => descriptors::duped(*first, fd),
            None => opening::inherited(fd, socket, connected),
        }
        known.push((cookie, fd));
    }
}

fn read(run_dir: &Path) -> io::Result<Vec<Bequest>> {
    let name = name()?;
    let path = run_dir.join(&*name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = Transient::new(openat(CWD, &path, flags, Mode::empty())?);
    let _ = unlinkat(CWD, &path, AtFlags::empty());
    let stat = fstat(&file)?;
    if !is_regular(&stat) || !is_ours(&stat) {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; (1 + MOST_LEFT * WORDS) * size_of::<u64>()];
    let len = pread(&file, &mut bytes, 0)?;
    Ok(decode(&bytes[..len]))
}

fn decode(bytes: &[u8]) -> Vec<Bequest> {
    let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    match words.split_first() {
        Some((&MAGIC, rest)) => rest
            .as_chunks()
            .0
            .iter()
            .filter_map(|words| Bequest::decode(*words))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(left: &[Bequest]) -> Vec<u8> {
        let words = left.iter().flat_map(|left| left.encode());
        std::iter::once(MAGIC)
            .chain(words)
            .flat_map(u64::to_ne_bytes)
            .collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let left =
            [(7, true, 99), (1023, false, u64::MAX)].map(|(fd, connected, cookie)| Bequest {
                fd,
                connected,
                cookie,
            });
        let bytes = encode(&left);
        assert_eq!(decode(&bytes), left);
        assert_eq!(decode(&bytes[..bytes.len() - 1]), left[..1]);
    }

    #[test]
    fn nonsense_is_no_will() {
        assert_eq!(decode(b""), []);
        assert_eq!(decode(&[0xff; 40]), []);
        let mut bytes = encode(&[]);
        bytes.extend([0xff; 16]);
        assert_eq!(decode(&bytes), [], "no such number");
    }
}
