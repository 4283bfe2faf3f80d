//! When a wait ends.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::runtime::process;
use rendezvous::config::Spin;

/// A time limit of a socket that was set to a negative time: the kernel does not wait then.
pub const AT_ONCE: u64 = 1;

/// When a wait ends by itself.
#[derive(Clone, Copy)]
pub struct Deadline {
    end: Option<Timespec>,
    /// A stop of the process ends it, too.
    pub of_socket: bool,
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
        os::process_wide! {
            static TICK: OnceLock<Duration> = OnceLock::new();
        }
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

    /// Does it come within this time?
    pub fn is_within(&self, time: Duration) -> bool {
        let left = self.left().and_then(|left| Duration::try_from(left).ok());
        left.is_some_and(|left| left < time)
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
