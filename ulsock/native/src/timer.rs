//! A timer of the kernel's, in the reactor of whoever waits for it.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::wait::{Direction, Registration};

pub struct Timer {
    fd: OwnedFd,
    registration: Registration,
    /// When it rings.
    set: Option<Instant>,
}

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let registration = Registration::new(&fd, false)?;
        Ok(Timer {
            fd,
            registration,
            set: None,
        })
    }

    /// When it rings next.
    pub fn rings_at(&self) -> Option<Instant> {
        self.set
    }

    pub fn set(&mut self, at: Instant) -> io::Result<()> {
        let left = at.saturating_duration_since(Instant::now());
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            // None at all would turn it off.
            tv_nsec: i64::from(left.subsec_nanos()).max(1),
        };
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        self.set = Some(at);
        Ok(())
    }

    /// Whether it has rung.
    pub fn poll(&mut self, task: &Context<'_>) -> Poll<io::Result<()>> {
        let fd = &self.fd;
        let rung = self.registration.poll(Direction::In, task, |_| {
            Ok(rustix::io::read(fd, &mut [0; 8])?)
        });
        if rung.is_ready() {
            self.set = None;
        }
        rung.map_ok(|_| ())
    }

    /// Waits until then.
    pub fn poll_until(&mut self, task: &Context<'_>, at: Instant) -> io::Result<Poll<()>> {
        loop {
            if at <= Instant::now() {
                return Ok(Poll::Ready(()));
            }
            if self.set != Some(at) {
                self.set(at)?;
            }
            match self.poll(task) {
                Poll::Ready(rung) => rung?,
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.registration.end(&self.fd);
    }
}
