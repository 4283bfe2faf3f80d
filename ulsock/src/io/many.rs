//! The calls that move many messages, as net/socket.c of the kernel has them (do_recvmmsg, __sys_sendmmsg): one
//! message after the other until one fails, is cut short, or the time is over.

use libc::{c_int, mmsghdr, msghdr, timespec};
use rustix::io::Errno;
use rustix::time::{clock_gettime, ClockId};

use super::messages::{recvmsg, sendmsg};
use super::{one_by_one, Way};
use crate::api::Verdict;
use crate::conn::Conn;
use crate::options;
use crate::pointer::is_bad;
use crate::sys::raw;

/// UIO_MAXIOV: a sendmmsg moves no more messages. A recvmmsg has no such limit.
const MOST_SENT: u32 = 1024;
const SECOND: i64 = 1_000_000_000;

/// When a recvmmsg gives up: looked at after each message, and only then.
struct Limit {
    sec: i64,
    nsec: i64,
}

impl Limit {
    /// `None` for a time that the kernel refuses.
    fn after(time: &timespec) -> Option<Limit> {
        if time.tv_sec < 0 || !(0..SECOND).contains(&time.tv_nsec) {
            return None;
        }
        if time.tv_sec == 0 && time.tv_nsec == 0 {
            return Some(Limit { sec: 0, nsec: 0 });
        }
        let now = clock_gettime(ClockId::Monotonic);
        let nsec = now.tv_nsec + time.tv_nsec;
        // Beyond the end of time the kernel takes the end.
        let sec = now.tv_sec.checked_add(time.tv_sec + nsec / SECOND);
        Some(match sec {
            Some(sec) => Limit {
                sec,
                nsec: nsec % SECOND,
            },
            None => Limit {
                sec: i64::MAX,
                nsec: 0,
            },
        })
    }

    /// The time that is left; zero when it is over.
    fn left(&self) -> timespec {
        let now = clock_gettime(ClockId::Monotonic);
        let borrowed = i64::from(self.nsec < now.tv_nsec);
        let left = timespec {
            tv_sec: self.sec - now.tv_sec - borrowed,
            tv_nsec: self.nsec - now.tv_nsec + borrowed * SECOND,
        };
        match left.tv_sec < 0 {
            true => timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            false => left,
        }
    }
}

/// What became of one message behind the first.
enum Next {
    Moved(usize),
    Failed(Errno),
}

/// A message behind the first one: if the connection has gone to the kernel meanwhile, the kernel moves it.
///
/// # Safety
/// As libc's `recvmsg` or `sendmsg`, by `call`.
unsafe fn next(
    fd: c_int,
    call: libc::c_long,
    msg: *mut msghdr,
    flags: c_int,
    ours: Verdict,
) -> Next {
    // SAFETY: by contract.
    let by_kernel = || unsafe {
        let args = [fd as usize, msg as usize, flags as usize];
        raw::syscall(call, args)
    };
    let result = match ours {
        Verdict::Done(n) => Ok(n as usize),
        Verdict::Fail(error) => Err(Errno::from_raw_os_error(error)),
        Verdict::Bypass => by_kernel(),
        Verdict::Kernel(inflight) => {
            let result = by_kernel();
            inflight.done(moved(result));
            result
        }
        Verdict::Counted(counted) => {
            let result = by_kernel();
            counted.done(moved(result));
            result
        }
    };
    result.map_or_else(Next::Failed, Next::Moved)
}

fn moved(result: Result<usize, Errno>) -> isize {
    result.map_or(-1, |n| n as isize)
}

/// # Safety
/// As libc's `recvmmsg`.
pub unsafe fn recvmmsg(
    fd: c_int,
    vec: *mut mmsghdr,
    len: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> Verdict {
    if options::managed(fd).is_none() {
        return one_by_one(fd, Way::In);
    }
    if is_bad(vec, size_of::<mmsghdr>())
        || !timeout.is_null() && is_bad(timeout, size_of::<timespec>())
    {
        return Verdict::Bypass;
    }
    // SAFETY: null or valid by contract.
    let limit = match unsafe { timeout.as_ref() } {
        None => None,
        Some(time) => match Limit::after(time) {
            Some(limit) => Some(limit),
            None => return Verdict::Fail(libc::EINVAL),
        },
    };
    // As in the kernel, a pending error comes before any bytes.
    if flags & libc::MSG_ERRQUEUE == 0 {
        if let Some(error) = options::take_error(fd) {
            return Verdict::Fail(error.raw_os_error());
        }
    }
    // SAFETY: by contract.
    unsafe { receive_all(fd, vec, len, flags, limit, timeout) }
}

/// # Safety
/// As libc's `recvmmsg`; `limit` is what `timeout` says.
unsafe fn receive_all(
    fd: c_int,
    vec: *mut mmsghdr,
    len: u32,
    flags: c_int,
    limit: Option<Limit>,
    timeout: *mut timespec,
) -> Verdict {
    let (wait_for_one, mut flags) = (
        flags & libc::MSG_WAITFORONE != 0,
        flags & !libc::MSG_WAITFORONE,
    );
    let mut done = 0;
    while done < len {
        // SAFETY: below `len`.
        let entry = unsafe { &mut *vec.add(done as usize) };
        let msg = &raw mut entry.msg_hdr;
        // SAFETY: by contract.
        let ours = unsafe { recvmsg(fd, msg, flags) };
        if done == 0 && !matches!(ours, Verdict::Done(_)) {
            return ours;
        }
        // SAFETY: by contract.
        match unsafe { next(fd, libc::SYS_recvmsg, msg, flags, ours) } {
            Next::Moved(n) => entry.msg_len = n as u32,
            Next::Failed(error) => {
                keep(fd, error);
                break;
            }
        }
        done += 1;
        if wait_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        if let Some(limit) = &limit {
            let left = limit.left();
            // SAFETY: valid by contract; with a limit it is not null.
            unsafe { *timeout = left };
            if left.tv_sec == 0 && left.tv_nsec == 0 {
                break;
            }
        }
    }
    Verdict::Done(done as isize)
}

/// An error of the connection, behind messages that have come: the next call tells it.
fn keep(fd: c_int, error: Errno) {
    if let Some(conn) = options::managed(fd).and_then(Conn::enter) {
        conn.keep_error(error);
    }
}

/// # Safety
/// As libc's `sendmmsg`.
pub unsafe fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: u32, flags: c_int) -> Verdict {
    if options::managed(fd).is_none() {
        return one_by_one(fd, Way::Out);
    }
    if is_bad(vec, size_of::<mmsghdr>()) {
        return Verdict::Bypass;
    }
    let mut done = 0;
    while done < len.min(MOST_SENT) {
        // SAFETY: below `len`.
        let entry = unsafe { &mut *vec.add(done as usize) };
        let msg = &raw mut entry.msg_hdr;
        // SAFETY: by contract.
        let ours = unsafe { sendmsg(fd, msg, flags) };
        if done == 0 && !matches!(ours, Verdict::Done(_)) {
            return ours;
        }
        // SAFETY: by contract.
        let Next::Moved(n) = (unsafe { next(fd, libc::SYS_sendmsg, msg, flags, ours) }) else {
            break;
        };
        entry.msg_len = n as u32;
        done += 1;
        // SAFETY: the message has moved: its vector is good.
        if n < unsafe { length(msg) } {
            break;
        }
    }
    Verdict::Done(done as isize)
}

/// # Safety
/// The vector of `msg` is valid.
unsafe fn length(msg: *const msghdr) -> usize {
    // SAFETY: by contract.
    unsafe {
        super::vectors::list((*msg).msg_iov, (*msg).msg_iovlen)
            .map_or(0, crate::conn::buffers::Buffers::total)
    }
}
