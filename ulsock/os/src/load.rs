//! How many threads of the host want a CPU right now.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::pread;

use crate::fds;

const UNKNOWN: i32 = -1;
/// Another thread opens it, or it cannot be opened.
const NOT_NOW: i32 = -2;

crate::process_wide! {
    /// Where the kernel tells, open for good.
    static FILE: AtomicI32 = AtomicI32::new(UNKNOWN);
}

/// Those that run or could, the caller among them; `None` if the kernel does not tell. It may be called from a handler.
pub fn runnable() -> Option<u32> {
    let number = match FILE.load(Ordering::Acquire) {
        UNKNOWN => open()?,
        NOT_NOW => return None,
        number => number,
    };
    // SAFETY: ours, and never closed.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let mut text = [0; 64];
    let length = pread(file, &mut text, 0).ok()?;
    parse(text.get(..length)?)
}

#[cold]
fn open() -> Option<i32> {
    let order = Ordering::AcqRel;
    FILE.compare_exchange(UNKNOWN, NOT_NOW, order, Ordering::Acquire)
        .ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(CWD, "/proc/loadavg", flags, Mode::empty());
    let file = file.and_then(fds::to_high).ok()?;
    let number = file.as_raw_fd();
    file.leave_open();
    FILE.store(number, Ordering::Release);
    Some(number)
}

/// Of a line such as `0.20 0.18 0.12 1/80 11206` the number before the slash.
fn parse(line: &[u8]) -> Option<u32> {
    let line = std::str::from_utf8(line).ok()?;
    let (runnable, _) = line.split_ascii_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line() {
        assert_eq!(parse(b"0.20 0.18 0.12 17/80 11206\n"), Some(17));
        assert_eq!(parse(b"0.20 0.18 0.12"), None);
        assert_eq!(parse(b"0.20 0.18 0.12 x/80 1\n"), None);
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn we_ourselves_run() {
        assert!(runnable().is_some_and(|count| count >= 1));
        assert!(runnable().is_some(), "from its beginning again");
    }
}
