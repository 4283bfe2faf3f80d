//! Waiting: a bounded spin, then arm, look again, sleep in one kernel poll.
//!
//! The sleeper listens to its bells and to the kernel socket at once, so a FIN, a reset or bytes
//! that come through the kernel wake it as surely as a ring does.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use libc::{c_short, pollfd, sigset_t};
use netstack::ring::tripwire::SLOTS;
use rustix::io::Errno;
use rustix::time::{clock_getres, clock_gettime, ClockId, Timespec};

use super::fixed;
use crate::bed::Sleep;
use crate::config::Spin;
use crate::process;
use crate::signal::Seen;
use crate::sockopt::AT_ONCE;
use crate::sys::door::Door;
use crate::thread::Thread;
use crate::waiter::{Waiter, BELLS};

/// When a wait ends by itself.
#[derive(Clone, Copy)]
pub struct Deadline {
    end: Option<Timespec>,
    /// A stop of the process ends it, too.
    of_socket: bool,
}

impl Deadline {
    pub fn never() -> Deadline {
        Deadline {
            end: None,
            of_socket: false,
        }
    }

    pub fn after(time: Duration) -> Deadline {
        Deadline::since(now(), time)
    }

    /// Not earlier, and up to two ticks of the kernel's clock later: without a look at the hardware's.
    pub fn roughly_after(time: Duration) -> Deadline {
        static TICK: OnceLock<Duration> = OnceLock::new();
        let tick = TICK.get_or_init(|| {
            let tick = clock_getres(ClockId::MonotonicCoarse);
            Duration::new(tick.tv_sec as u64, tick.tv_nsec as u32)
        });
        Deadline::since(
            clock_gettime(ClockId::MonotonicCoarse),
            time.saturating_add(*tick),
        )
    }

    fn since(now: Timespec, time: Duration) -> Deadline {
        let nanos = now.tv_nsec + i64::from(time.subsec_nanos());
        let seconds = now
            .tv_sec
            .saturating_add(time.as_secs().min(i64::MAX as u64 / 2) as i64);
        let end = Timespec {
            tv_sec: seconds + nanos / 1_000_000_000,
            tv_nsec: nanos % 1_000_000_000,
        };
        Deadline {
            end: Some(end),
            of_socket: false,
        }
    }

    /// The limit that SO_RCVTIMEO or SO_SNDTIMEO has set; zero microseconds stand for none.
    pub fn of_socket(us: u64) -> Deadline {
        match us {
            0 => Deadline::never(),
            AT_ONCE => Deadline::after(Duration::ZERO),
            _ => Deadline {
                of_socket: true,
                ..Deadline::after(Duration::from_micros(us))
            },
        }
    }

    /// The earlier of two; for a call with a limit of its socket that limit's rules hold.
    pub fn min(self, other: Deadline) -> Deadline {
        let end = match (self.end, other.end) {
            (Some(a), Some(b)) if (b.tv_sec, b.tv_nsec) < (a.tv_sec, a.tv_nsec) => Some(b),
            (None, end) => end,
            (end, _) => end,
        };
        Deadline {
            end,
            of_socket: self.of_socket || other.of_socket,
        }
    }

    /// The time left; `None` for ever.
    pub fn left(&self) -> Option<Timespec> {
        let end = self.end?;
        let now = now();
        let nanos =
            (end.tv_sec - now.tv_sec).saturating_mul(1_000_000_000) + (end.tv_nsec - now.tv_nsec);
        let nanos = nanos.max(0);
        Some(Timespec {
            tv_sec: nanos / 1_000_000_000,
            tv_nsec: nanos % 1_000_000_000,
        })
    }

    /// Is there no end, and no need to come back for the next spin?
    pub fn is_never(&self) -> bool {
        self.end.is_none() && process::config().spin != Spin::Forever
    }

    /// Does it end by itself?
    pub fn has_end(&self) -> bool {
        self.end.is_some()
    }

    pub fn passed(&self) -> bool {
        self.left()
            .is_some_and(|left| left.tv_sec == 0 && left.tv_nsec == 0)
    }
}

fn now() -> Timespec {
    clock_gettime(ClockId::Monotonic)
}

const NOT_AT_ALL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A place in a wire's slots, given back when dropped.
pub struct Slot<'a> {
    used: &'a AtomicU32,
    pub number: usize,
}

impl Slot<'_> {
    /// `None` when as many waiters as a wire has slots are there already.
    pub fn take(used: &AtomicU32) -> Option<Slot<'_>> {
        let mut now = used.load(Ordering::Relaxed);
        loop {
            let number = now.trailing_ones() as usize;
            if number >= SLOTS {
                return None;
            }
            match used.compare_exchange(now, now | 1 << number, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Some(Slot { used, number }),
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

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        Slot::give_back(self.used, self.number);
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
    /// A handler has run. As in the kernel (sock_intr_errno), SA_RESTART restarts no call with a time limit.
    pub fn by_handler(before: Seen, me: &Thread, deadline: Deadline) -> Over {
        match before.ends_call(me) || deadline.end.is_some() {
            true => Over::Fails(Errno::INTR),
            false => Over::Restarts,
        }
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

/// Without waiting.
pub fn poll_now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    let door = Door::always_open();
    raw_ppoll(door, fds, Some(NOT_AT_ALL), std::ptr::null())
}

/// Without waiting, for some time, or for ever.
pub fn raw_ppoll(
    door: Door<'_>,
    fds: &mut [pollfd],
    left: Option<Timespec>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let left = left.map(|left| libc::timespec {
        tv_sec: left.tv_sec,
        tv_nsec: left.tv_nsec,
    });
    let time = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    ppoll_at(door, fds, time, mask)
}

/// The system call itself: libc's wrapper is ours. It writes the time that is left to `time`, if it
/// can.
fn ppoll_at(
    door: Door<'_>,
    fds: &mut [pollfd],
    time: *const libc::timespec,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let (at, count) = (fds.as_mut_ptr() as usize, fds.len());
    // SAFETY: pointers to what lives during the call, the mask null or valid; 8 is the kernel's
    // sigset size.
    unsafe {
        door.syscall(
            libc::SYS_ppoll,
            [at, count, time as usize, mask as usize, 8],
        )
    }
}
