//! Waiting: a bounded spin, then arm, look again, sleep in one kernel poll.
//!
//! The sleeper listens to its bells and to the kernel socket at once, so a FIN, a reset or bytes
//! that come through the kernel wake it as surely as a ring does.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_short, pollfd};
use netstack::ring::tripwire::SLOTS;
use rustix::io::Errno;
use rustix::time::Timespec;

use super::fixed;
use crate::runtime::deadline::Deadline;
use crate::runtime::process;
use crate::runtime::signal::Seen;
use crate::runtime::sleep_state::Sleep;
use crate::runtime::thread::Thread;
use os::poll::NOT_AT_ALL;
use os::poll::ppoll_at;
use rendezvous::config::Spin;
use shm::waiter::{BELLS, Waiter};

/// A place in a wire's slots, given back when dropped.
pub struct WireSlot<'a> {
    used: &'a AtomicU32,
    pub number: usize,
}

impl WireSlot<'_> {
    /// `None` when as many waiters as a wire has slots are there already.
    pub fn take(used: &AtomicU32) -> Option<WireSlot<'_>> {
        let mut now = used.load(Ordering::Relaxed);
        loop {
            let number = now.trailing_ones() as usize;
            if number >= SLOTS {
                return None;
            }
            match used.compare_exchange(now, now | 1 << number, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Some(WireSlot { used, number }),
                Err(other) => now = other,
            }
        }
    }

    /// Keeps the place: an epoll set gives it back by number.
    pub fn keep(self) -> usize {
        let number = self.number;
        std::mem::forget(self);
        number
    }

    pub fn give_back(used: &AtomicU32, number: usize) {
        used.fetch_and(!(1 << number), Ordering::AcqRel);
    }
}

impl Drop for WireSlot<'_> {
    fn drop(&mut self) {
        WireSlot::give_back(self.used, self.number);
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Look again: a bell, or these events on the kernel socket.
    Look(c_short),
    Interrupted,
    TimedOut,
    Failed(Errno),
}

/// Why a call is over that has slept, unless it has moved bytes: then it tells how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Fails(Errno),
    /// It begins again as it was made, with whatever its number and its socket's flags mean by now.
    Restarts,
}

impl Over {
    /// Of a sleep that has ended; `None`: there is something to look at.
    pub fn of(woken: Woken, before: Seen, me: &Thread, deadline: Deadline) -> Option<Over> {
        match woken {
            Woken::Look(_) => None,
            Woken::Interrupted => Some(Over::by_handler(before, me, deadline)),
            Woken::TimedOut => Some(Over::Fails(Errno::AGAIN)),
            Woken::Failed(error) => Some(Over::Fails(error)),
        }
    }

    /// A handler has run. As in the kernel (sock_intr_errno), SA_RESTART restarts no call with a time limit.
    pub fn by_handler(before: Seen, me: &Thread, deadline: Deadline) -> Over {
        match before.ends_call(me) || deadline.has_end() {
            true => Over::Fails(Errno::INTR),
            false => Over::Restarts,
        }
    }
}

/// The end of a pace is not the end of the wait.
pub fn paced(woken: Woken, deadline: Deadline) -> Woken {
    match woken {
        Woken::TimedOut if !deadline.passed() => Woken::Look(0),
        woken => woken,
    }
}

/// Sleeps on one kernel socket and the waiter's bells (none: on the socket alone).
pub fn sleep(
    sleep: &Sleep,
    waiter: Option<&Waiter>,
    socket: BorrowedFd<'_>,
    events: c_short,
    deadline: Deadline,
) -> Woken {
    let mut fds = [pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 1 + BELLS];
    fds[0] = pollfd {
        fd: socket.as_raw_fd(),
        events,
        revents: 0,
    };
    for (place, bell) in fds[1..]
        .iter_mut()
        .zip(waiter.iter().flat_map(|waiter| waiter.bells()))
    {
        place.fd = bell.wait_fd().as_raw_fd();
    }
    let left = left_to_sleep(deadline);
    let slept = match left.filter(|left| deadline.of_socket && *left != NOT_AT_ALL) {
        Some(left) => sleep.by(std::ptr::null(), |door, mask| {
            ppoll_at(door, &mut fds, fixed::at_most(left), mask)
        }),
        None => sleep.poll(&mut fds, left, std::ptr::null()),
    };
    match slept {
        Ok(0) if deadline.passed() => Woken::TimedOut,
        Ok(_) => {
            answer_bells(waiter, &fds[1..]);
            Woken::Look(fds[0].revents)
        }
        Err(Errno::INTR) => Woken::Interrupted,
        Err(error) => Woken::Failed(error),
    }
}

/// A bell that has rung is quiet again afterwards.
pub fn answer_bells(waiter: Option<&Waiter>, polled: &[pollfd]) {
    let Some(waiter) = waiter else { return };
    for (bell, place) in waiter.bells().zip(polled) {
        if place.revents != 0 {
            bell.drain();
        }
    }
}

/// Infinite spinning only looks at the kernel and comes back.
pub fn left_to_sleep(deadline: Deadline) -> Option<Timespec> {
    match process::config().spin {
        Spin::Forever => Some(NOT_AT_ALL),
        _ => deadline.left(),
    }
}
