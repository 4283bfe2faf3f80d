//! A receive of no bytes: it waits, and fails, as one of some would. But whatever ends its wait, it has
//! then succeeded: the kernel's loop goes on only as long as bytes are wanted (tcp_recvmsg_locked).

use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, MSG_PEEK, POLLIN, POLLPRI, POLLRDHUP, c_int};
use netstack::ring::Look;
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
use os::tcp;

/// Are there bytes in the kernel socket, and do they come next? A peek of none goes on until it meets descriptors
/// (`unix_stream_read_generic` in net/unix/af_unix.c), and takes nothing: for it they need not be next.
pub fn is_next_in_kernel(handle: Handle, flags: c_int) -> bool {
    Conn::enter(handle).is_some_and(|conn| {
        if !conn.record.rx.gate.is_closed() || flags & MSG_PEEK != 0 {
            return tcp::inq(conn.socket).is_ok_and(|bytes| bytes > 0);
        }
        let Some(mut held) = conn.lock_rx() else {
            return false;
        };
        let look = conn.receiver(held.state()).look();
        let by_kernel = matches!(
            look,
            Ok(Look::Kernel {
                skip: 0,
                limit: 1..
            })
        );
        by_kernel && tcp::inq(conn.socket).is_ok_and(|bytes| bytes > 0)
    })
}

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
        let before = conn.progress();
        // What there is to tell stays for the next receive.
        let events = POLLIN | POLLPRI | POLLRDHUP;
        // A Unix socket's goes on waiting, whatever else has woken it.
        let woken = record.wake_generation.load(Ordering::Acquire) != wake_generation;
        if woken && !record.is_unix() || conn.revents(events) != 0 {
            return Some(Ok(0));
        }
        let wanted = Wanted {
            before,
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
