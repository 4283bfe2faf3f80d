//! The wait for completions of an io_uring that is served: for operations that are kept, and for the kernel's.

use std::os::fd::{BorrowedFd, RawFd};

use libc::{POLLIN, POLLOUT, pollfd, sigset_t, timespec};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::entry::{self, Plain};
use super::serve::{Call, Serving};
use crate::ready::poll::{self, Begun, PollLimit};
use crate::runtime::signal::Seen;
use crate::runtime::spin;
use crate::runtime::thread::Thread;
use crate::state::urings::KeptOperation;

/// How long a call waits at most, and with which signals blocked.
#[derive(Clone, Copy)]
pub struct Limit {
    /// `None`: for ever.
    pub time: Option<timespec>,
    pub mask: *const sigset_t,
}

impl Limit {
    pub const NEVER: Limit = Limit {
        time: None,
        mask: std::ptr::null(),
    };

    /// The kernel takes more than a second's nanoseconds here, and a time that is past for none.
    fn normal(&self) -> Option<timespec> {
        const SECOND: i64 = 1_000_000_000;
        let time = self.time?;
        let seconds = time.tv_sec.saturating_add(time.tv_nsec.div_euclid(SECOND));
        let (tv_sec, tv_nsec) = match seconds {
            ..0 => (0, 0),
            _ => (seconds, time.tv_nsec.rem_euclid(SECOND)),
        };
        Some(timespec { tv_sec, tv_nsec })
    }
}

/// Why a wait has ended.
#[derive(Clone, Copy)]
pub enum Awaited {
    Enough,
    /// Nothing of ours is left to wait for; so much of the time is.
    ByKernel(Option<timespec>),
    /// A handler has run.
    Interrupted,
    TooLate,
}

/// Until there are so many completions.
pub fn wait(serving: &mut Serving<'_>, call: Call) -> Awaited {
    let me = Thread::me();
    let seen = me.map(Seen::now);
    let Some(limit) = PollLimit::new(call.limit.normal().as_ref()) else {
        return Awaited::Enough;
    };
    // As the kernel: more than there is room for never come.
    let wanted = call.wanted.min(serving.program.completion_count());
    let is_impatient = wanted == 0;
    loop {
        serving.collect(is_impatient);
        if is_enough(serving, wanted) || spin(serving, wanted) {
            return ended(serving, wanted, limit);
        }
        if me.zip(seen).is_some_and(|(me, seen)| seen.any_handler(me)) {
            return Awaited::Interrupted;
        }
        serving.give_back_closed();
        serving.submit_before_sleep();
        let bell = hear(serving);
        if is_enough(serving, wanted) {
            return ended(serving, wanted, limit);
        }
        match sleep(serving, limit, call.limit.mask, seen, bell) {
            Err(Errno::INTR) => return Awaited::Interrupted,
            Ok(0) if !is_enough(serving, wanted) => return Awaited::TooLate,
            _ => {}
        }
    }
}

fn ended(serving: &Serving<'_>, wanted: u32, limit: PollLimit) -> Awaited {
    match serving.completions() >= wanted {
        true => Awaited::Enough,
        false => Awaited::ByKernel(limit.left()),
    }
}

/// What the kernel has done, if it has anything to do, and the bell by which it tells of more.
fn hear(serving: &mut Serving<'_>) -> Option<RawFd> {
    if !serving.served.kernel_works && !serving.program.has_overflown() {
        return None;
    }
    let bell = serving.bell();
    silence(bell);
    serving.hear();
    if bell.is_none() {
        // Only the kernel can wait for both.
        serving.stop();
    }
    bell
}

/// Are there so many, or is there nothing of ours to wait for?
fn is_enough(serving: &Serving<'_>, wanted: u32) -> bool {
    serving.completions() >= wanted || serving.served.kept.is_empty()
}

/// Awake for a moment; `true` if there are enough.
fn spin(serving: &mut Serving<'_>, wanted: u32) -> bool {
    let Some(me) = Thread::me() else { return false };
    spin::until(
        &me.spin,
        || false,
        || {
            serving.collect_quickly();
            is_enough(serving, wanted)
        },
    )
}

/// What the bell has told so far is about to be looked at.
fn silence(bell: Option<RawFd>) {
    let mut count = [0; 8];
    if let Some(bell) = bell {
        // SAFETY: a descriptor of ours, which is open as long as the io_uring is served.
        let _ = rustix::io::read(unsafe { BorrowedFd::borrow_raw(bell) }, &mut count);
    }
}

fn sleep(
    serving: &mut Serving<'_>,
    limit: PollLimit,
    mask: *const sigset_t,
    seen: Option<Seen>,
    bell: Option<RawFd>,
) -> Result<usize, Errno> {
    let mut fds: SmallVec<[pollfd; 16]> = serving.served.kept.iter().map(polled).collect();
    let count = fds.len();
    fds.extend(bell.map(|fd| pollfd {
        fd,
        events: POLLIN,
        revents: 0,
    }));
    let begun = Begun { seen, bell };
    let result = poll::poll_since(&mut fds, limit, mask, begun);
    let result = result.unwrap_or_else(|| {
        // Nothing of it is ours any more.
        fds.iter_mut().for_each(|entry| entry.revents = POLLIN);
        Ok(fds.len())
    });
    let ready = |kept: &KeptOperation| {
        let is_it = |entry: &pollfd| entry.fd == kept.handle.fd && entry.revents != 0;
        fds[..count].iter().any(is_it)
    };
    serving.collect_from(ready);
    result
}

fn polled(kept: &KeptOperation) -> pollfd {
    let events = match entry::plain(&kept.entry) {
        Some(Plain::Transmit) => POLLOUT,
        Some(Plain::Poll(events)) => events,
        _ => POLLIN,
    };
    pollfd {
        fd: kept.handle.fd,
        events,
        revents: 0,
    }
}
