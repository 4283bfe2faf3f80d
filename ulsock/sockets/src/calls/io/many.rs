//! The calls that move many messages, as net/socket.c of the kernel has them (do_recvmmsg, __sys_sendmmsg): one
//! message after the other until one fails, is cut short, or the time is over.

use libc::{c_int, mmsghdr, msghdr, timespec};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::messages::{on_kept, receive_message, send_message};
use super::sender;
use super::vectors::list;
use super::{Way, one_by_one, until_done};
use crate::calls::options;
use crate::conn::buffers::Buffers;
use crate::conn::handover::to_kernel;
use crate::conn::kept::KeptConnection;
use crate::conn::{Conn, Handle};
use crate::runtime::signal::Seen;
use crate::runtime::thread::Thread;
use crate::state::verdict::Verdict;
use os::access;
use os::raw;
use rendezvous::reason::Reason;

/// UIO_MAXIOV: a sendmmsg moves no more messages. A recvmmsg has no such limit.
const MOST_SENT: u32 = 1024;
const SECOND: i64 = 1_000_000_000;

/// When a recvmmsg gives up: looked at after each message, and only then.
struct ManyLimit {
    sec: i64,
    nsec: i64,
}

impl ManyLimit {
    /// `None` for a time that the kernel refuses.
    fn after(time: &timespec) -> Option<ManyLimit> {
        if time.tv_sec < 0 || !(0..SECOND).contains(&time.tv_nsec) {
            return None;
        }
        if time.tv_sec == 0 && time.tv_nsec == 0 {
            return Some(ManyLimit { sec: 0, nsec: 0 });
        }
        let now = clock_gettime(ClockId::Monotonic);
        let nsec = now.tv_nsec + time.tv_nsec;
        // Beyond the end of time the kernel takes the end.
        let sec = now.tv_sec.checked_add(time.tv_sec + nsec / SECOND);
        Some(match sec {
            Some(sec) => ManyLimit {
                sec,
                nsec: nsec % SECOND,
            },
            None => ManyLimit {
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

/// A call under way: it keeps the connection that it began with, whatever becomes of the number.
struct ManyCall {
    handle: Handle,
    way: Way,
    flags: c_int,
    /// Flags of all messages but the first.
    later: c_int,
    /// The thread, and the handlers that had run when the call began.
    begun: Option<(&'static Thread, Seen)>,
    kept: KeptConnection,
}

impl ManyCall {
    fn begin(handle: Handle, way: Way, flags: c_int) -> ManyCall {
        let mut kept = KeptConnection::default();
        if let Some(conn) = Conn::enter(handle) {
            kept.note(&conn);
        }
        ManyCall {
            handle,
            way,
            flags,
            later: 0,
            begun: Thread::me().map(|me| (me, Seen::now(me))),
            kept,
        }
    }

    /// One message after the other, until one fails, or one has moved that `is_last` says is. The first decides whether
    /// the call is ours: any other verdict is that of the whole call. `None`: the call begins again.
    ///
    /// # Safety
    /// As libc's `recvmmsg` or `sendmmsg`.
    unsafe fn move_all(
        &mut self,
        vec: *mut mmsghdr,
        len: u32,
        mut is_last: impl FnMut(*const msghdr, usize) -> bool,
    ) -> Option<Verdict> {
        if len == 0 {
            return Some(Verdict::Done(0));
        }
        // SAFETY: the caller says that `vec` has `len` messages; this is the first.
        let mut n = match unsafe { self.message(entry(vec, 0).0) }? {
            Verdict::Done(n) => n as usize,
            other => return Some(other),
        };
        let mut done = 0;
        loop {
            let (msg, place) = entry(vec, done);
            if !access::store(place, n as u32) {
                return Some(unsaid(done));
            }
            done += 1;
            self.flags |= self.later;
            // In the kernel a signal is pending until the call returns, and no later message is waited for.
            if self.is_interrupted() {
                self.flags |= libc::MSG_DONTWAIT;
            }
            if is_last(msg, n) || done == len {
                break;
            }
            // SAFETY: below `len`, and the caller says that `vec` has so many.
            match unsafe { self.next(entry(vec, done).0) } {
                Ok(moved) => n = moved,
                Err(error) => {
                    self.keep(error);
                    break;
                }
            }
        }
        Some(Verdict::Done(done as isize))
    }

    /// Has a handler run since the call began?
    fn is_interrupted(&self) -> bool {
        self.begun.is_some_and(|(me, seen)| seen.any_handler(me))
    }

    /// # Safety
    /// As libc's `recvmsg` or `sendmsg`.
    unsafe fn message(&self, msg: *mut msghdr) -> Option<Verdict> {
        // SAFETY: a message of the program's own, as the call of this direction wants it.
        unsafe {
            match self.way {
                Way::In => receive_message(self.handle.fd, msg, self.flags),
                Way::Out => send_message(self.handle.fd, msg, self.flags),
            }
        }
    }

    /// A message behind the first one: if the connection has gone to the kernel meanwhile, the kernel moves it.
    ///
    /// # Safety
    /// As libc's `recvmsg` or `sendmsg`.
    unsafe fn next(&self, msg: *mut msghdr) -> Result<usize, Errno> {
        if !self.handle.is_open() {
            // SAFETY: a message of the program's own, as the call of this direction wants it.
            let result = unsafe { on_kept(self.handle.here(), self.way, msg, self.flags) };
            return result.unwrap_or(Err(Errno::BADF));
        }
        // SAFETY: the kernel checks a message of the program's own, as ever.
        let by_kernel = || unsafe {
            let call = match self.way {
                Way::In => libc::SYS_recvmsg,
                Way::Out => libc::SYS_sendmsg,
            };
            let args = [self.handle.fd as usize, msg as usize, self.flags as usize];
            raw::syscall(call, args)
        };
        // SAFETY: a message of the program's own, as the call of this direction wants it.
        match unsafe { self.message(msg) } {
            // Only a call that has moved nothing begins again.
            None => Err(Errno::INTR),
            Some(Verdict::Done(n)) => Ok(n as usize),
            Some(Verdict::Fail(error)) => Err(Errno::from_raw_os_error(error)),
            Some(Verdict::Bypass) => by_kernel(),
            Some(Verdict::Kernel(inflight)) => {
                let result = by_kernel();
                inflight.done(moved(result));
                result
            }
            Some(Verdict::Counted(counted)) => {
                let result = by_kernel();
                counted.done(moved(result));
                result
            }
            Some(Verdict::Young(call)) => {
                let result = by_kernel();
                call.done(moved(result));
                result
            }
        }
    }

    /// An error of the connection, behind messages that have come: the next call tells it. Behind messages that have
    /// gone the next one finds it out.
    fn keep(&self, error: Errno) {
        if self.way == Way::Out {
            return;
        }
        if let Some(conn) = Conn::enter(self.handle.here()) {
            conn.keep_error(error);
        }
    }
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
    // SAFETY: the program's own arguments, which are checked before they are used.
    until_done(|| unsafe { receive_many(fd, vec, len, flags, timeout) })
}

/// `None`: the call begins again.
///
/// # Safety
/// As libc's `recvmmsg`.
unsafe fn receive_many(
    fd: c_int,
    vec: *mut mmsghdr,
    len: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> Option<Verdict> {
    let Some(handle) = crate::conn::managed(fd) else {
        leave_uncounted(fd);
        return Some(one_by_one(fd, Way::In, 0));
    };
    // SAFETY: any bytes are a time.
    let Some(time) = (unsafe { access::load_if_any(timeout) }) else {
        return Some(Verdict::Fail(libc::EFAULT));
    };
    let limit = match time {
        None => None,
        Some(time) => match ManyLimit::after(&time) {
            Some(limit) => Some(limit),
            None => return Some(Verdict::Fail(libc::EINVAL)),
        },
    };
    // As in the kernel, a pending error comes before any bytes.
    if flags & libc::MSG_ERRQUEUE == 0
        && let Some(error) = options::take_error(fd)
    {
        return Some(Verdict::Fail(error.raw_os_error()));
    }
    let mut call = ManyCall::begin(handle, Way::In, flags & !libc::MSG_WAITFORONE);
    if flags & libc::MSG_WAITFORONE != 0 {
        call.later = libc::MSG_DONTWAIT;
    }
    let mut told = true;
    let is_over = |_, _| {
        limit.as_ref().is_some_and(|limit| {
            let left = limit.left();
            told = access::store(timeout, left);
            left.tv_sec == 0 && left.tv_nsec == 0
        })
    };
    // SAFETY: the program says that `vec` has `len` messages.
    let verdict = unsafe { call.move_all(vec, len, is_over) };
    call.kept.end();
    match verdict {
        // As in the kernel, what has been received is gone.
        Some(Verdict::Done(1..)) if !told => Some(Verdict::Fail(libc::EFAULT)),
        verdict => verdict,
    }
}

/// # Safety
/// As libc's `sendmmsg`.
pub unsafe fn sendmmsg(fd: c_int, vec: *mut mmsghdr, len: u32, flags: c_int) -> Verdict {
    until_done(|| {
        let Some(handle) = crate::conn::managed(fd) else {
            leave_uncounted(fd);
            return Some(one_by_one(fd, Way::Out, flags));
        };
        let mut call = ManyCall::begin(handle, Way::Out, flags);
        // SAFETY: a message that has moved has a good vector.
        let is_cut_short = |msg, n| n < unsafe { length(msg) };
        // SAFETY: the program says that `vec` has `len` messages.
        let verdict = unsafe { call.move_all(vec, len.min(MOST_SENT), is_cut_short) };
        call.kept.end();
        verdict
    })
}

/// The kernel tells of many messages how many they are, not how many bytes: a Unix connection that is not on rings yet stays
/// where it is.
fn leave_uncounted(fd: c_int) {
    if sender::is_unix(fd) {
        to_kernel(fd, Reason::Uncounted);
    }
}

/// Where a message is, and where its length goes.
fn entry(vec: *mut mmsghdr, at: u32) -> (*mut msghdr, *mut u32) {
    let entry = vec.wrapping_add(at as usize);
    // SAFETY: only the places are named.
    unsafe { (&raw mut (*entry).msg_hdr, &raw mut (*entry).msg_len) }
}

/// The length of a message that has moved cannot be written: those before it count.
fn unsaid(done: u32) -> Verdict {
    match done {
        0 => Verdict::Fail(libc::EFAULT),
        _ => Verdict::Done(done as isize),
    }
}

/// # Safety
/// The vector of `msg` is valid.
unsafe fn length(msg: *const msghdr) -> usize {
    // SAFETY: the caller says that the vector is valid.
    unsafe { list((*msg).msg_iov, (*msg).msg_iovlen).map_or(0, Buffers::total) }
}
