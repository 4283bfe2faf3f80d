//! A receive of no bytes: it waits, and fails, as one of some would. But whatever ends its wait, it has
//! then succeeded: the kernel's loop goes on only as long as bytes are wanted (tcp_recvmsg_locked).

use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_PEEK, POLLIN, POLLPRI, POLLRDHUP, c_int};
use rustix::io::Errno;

use super::buffers::Bin;
use super::kept::KeptConnection;
use super::wait::Woken;
use super::wait_data::{self, Wanted};
use super::{Conn, Handle, recv};
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::thread::Thread;
use crate::state::record::flag;

/// `None` when the connection is not managed any more.
pub fn receive(handle: Handle, flags: c_int) -> Option<Result<usize, Errno>> {
    let mut kept = KeptConnection::default();
    let result = wait(handle, flags, &mut kept);
    kept.end();
    result
}

fn wait(
    mut handle: Handle,
    flags: c_int,
    kept: &mut KeptConnection,
) -> Option<Result<usize, Errno>> {
    let me = Thread::me()?;
    let seen = Seen::now(me);
    match recv::recv(handle, &mut Bin, 1, MSG_PEEK | MSG_DONTWAIT)? {
        // An urgent byte is there too, though no receive would get it.
        Err(Errno::AGAIN) if Conn::enter(handle)?.is_at_mark() => return Some(Ok(0)),
        Err(Errno::AGAIN) => {}
        result => return Some(result.map(|_| 0)),
    }
    let record = handle.record()?;
    if flags & MSG_DONTWAIT != 0 || record.has(flag::NONBLOCK) {
        return Some(Err(Errno::AGAIN));
    }
    let deadline = Deadline::of_socket(record.recv_timeout_us.load(Ordering::Relaxed));
    let wake_generation = record.wake_generation.load(Ordering::Acquire);
    loop {
        let conn = Conn::enter(handle)?;
        // What there is to tell stays for the next receive.
        let events = POLLIN | POLLPRI | POLLRDHUP;
        if record.wake_generation.load(Ordering::Acquire) != wake_generation
            || conn.revents(events) != 0
        {
            return Some(Ok(0));
        }
        let wanted = Wanted {
            least: u64::from(record.recv_lowat.load(Ordering::Relaxed).max(1)),
            there: conn.readable_bytes().unwrap_or(0),
            urgent: true,
        };
        let woken = wait_data::wait(conn, wanted, deadline, seen, kept);
        handle = handle.here();
        match woken {
            Woken::Look(_) => {}
            Woken::Failed(error) => return Some(Err(error)),
            Woken::Interrupted | Woken::TimedOut => return Some(Ok(0)),
        }
    }
}
