//! Handing a connection to somebody who knows only its kernel socket: a program that does not load
//! us, another process, stdio inside libc.
//!
//! Bytes that are in the ring and not read yet must come through the kernel. The peer sends them
//! again as soon as it hears the wish; if it does not, because it computes, is stopped or has gone,
//! a stand-in takes the socket's place.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use netstack::ring::Unread;
use rustix::event::{PollFd, PollFlags, poll};

use super::{Conn, Handle, demote, flush, readiness};
use crate::runtime::deadline::Deadline;
use crate::state::record::{State, flag};
use crate::state::table::{self, Slot};
use os::backoff::Backoff;
use os::tcp;
use rendezvous::reason::Reason;

/// How long a peer is given to send again what the ring holds.
const RESEND_TIME: Duration = Duration::from_millis(100);
/// How long our own bytes may take into a kernel socket that is full.
const FLUSHING: Duration = Duration::from_secs(2);
/// For both, where everything else in the program waits for us: some turns of a CPU, so that a peer that is about to answer
/// does, and less than a program's own limits of time are.
const STANDSTILL: Duration = Duration::from_millis(20);

/// What to do about bytes that the peer does not send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// They must be there for the next reader at once.
    StandIn,
    /// The same, unless another process holds the socket too, and may be who reads on.
    StandInIfAlone,
    /// We go on reading ourselves, as far as we know.
    Ours,
    /// The same, and no other thread of the program gets on meanwhile.
    OursSoon,
}

/// Returns connections to the kernel for good, exactly.
pub fn hand_over(handles: &[Handle], reason: Reason, rest: Rest) {
    // All wishes first: the peers serve them at the same time.
    handles.iter().for_each(|handle| demote(*handle, reason));
    let mut left = handles.to_vec();
    let limits = Limits::of(rest);
    let mut backoff = Backoff::default();
    loop {
        // In turn: whoever does not answer must not take the others' time.
        left.retain(|handle| step(*handle, &limits, rest) == HandoverStep::Again);
        if left.is_empty() {
            return;
        }
        backoff.pause();
    }
}

/// Returns a connection to the kernel for good, before a call that we do not handle on rings.
pub fn to_kernel(fd: RawFd, reason: Reason) {
    let slot = table::get(fd);
    if let Slot::Fresh | Slot::Young(_) = slot
        && table::change(fd, slot, Slot::Foreign)
    {
        return;
    }
    if let Some((family, number, record)) = crate::state::process_group::record_of(fd) {
        match record.state() {
            State::Managed => {
                let handle = Handle::new(family, number, fd);
                hand_over(&[handle], reason, Rest::StandIn)
            }
            _ => {
                record.set(flag::PINNED);
                record.set_reason(reason);
            }
        }
    }
}

/// For all connections that are handed over at once.
struct Limits {
    peers: Deadline,
    flushing: Deadline,
}

impl Limits {
    fn of(rest: Rest) -> Limits {
        let [peers, flushing] = match rest {
            Rest::OursSoon => [STANDSTILL; 2],
            Rest::StandIn | Rest::StandInIfAlone | Rest::Ours => [RESEND_TIME, FLUSHING],
        };
        Limits {
            peers: Deadline::after(peers),
            flushing: Deadline::after(flushing),
        }
    }
}

#[derive(PartialEq, Eq)]
enum HandoverStep {
    Again,
    Done,
}

fn step(handle: Handle, limits: &Limits, rest: Rest) -> HandoverStep {
    let Some(conn) = Conn::enter(handle) else {
        return HandoverStep::Done;
    };
    let flushed = flush::flush(&conn) || limits.flushing.passed();
    let alone = conn.record.procs.load(Ordering::Acquire) == 1;
    let overdue = limits.peers.passed();
    let unread = unread(&conn, overdue && !alone);
    let elsewhere = matches!(unread, Unread::InRing | Unread::OnTheWay);
    let lost = elsewhere && (overdue || is_gone(conn.socket));
    let untold = conn.untold().is_some();
    drop(conn);
    let is_replaced = match rest {
        Rest::StandIn => true,
        Rest::StandInIfAlone => alone,
        Rest::Ours | Rest::OursSoon => false,
    };
    match unread {
        Unread::InKernel { skip: 0 } | Unread::None if flushed => {
            // The kernel tells an error once: we have taken it, and who comes would find an end.
            if untold && is_replaced {
                (readiness::told().stand_in)(handle);
            }
            HandoverStep::Done
        }
        // The other one may be just about to let go.
        _ if lost && rest == Rest::StandInIfAlone && !alone && !overdue => HandoverStep::Again,
        _ if lost => {
            if is_replaced {
                (readiness::told().stand_in)(handle);
            }
            HandoverStep::Done
        }
        _ => HandoverStep::Again,
    }
}

/// Where the unread bytes are now; the kernel's second copies are thrown away.
fn unread(conn: &Conn<'_>, trusting: bool) -> Unread {
    let Some(mut held) = conn
        .record
        .rx
        .gate
        .is_closed()
        .then(|| conn.lock_rx())
        .flatten()
    else {
        return Unread::None;
    };
    let mut rx = conn.receiver(held.state());
    if conn.record.has(flag::RECORD_MAY_COME) {
        // Who knows no ring would read the record as bytes.
        let _ = conn.read_records(&mut rx);
        if conn.record.has(flag::RECORD_MAY_COME) {
            return Unread::OnTheWay;
        }
    }
    let queued = tcp::inq(conn.socket).map_or(0, u64::from);
    match rx.onto_kernel(queued, trusting) {
        Ok(Unread::InKernel { skip }) if skip > 0 => {
            let _ = conn.settle(&mut rx);
            Unread::OnTheWay
        }
        Ok(unread) => unread,
        Err(_) => {
            conn.broken();
            Unread::None
        }
    }
}

/// The peer sends nothing more.
pub fn is_gone(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    poll(&mut fds, Some(&rustix::time::Timespec::default())).is_ok_and(|ready| ready > 0)
}
