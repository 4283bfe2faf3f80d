//! `epoll_wait`: ring events from the boards, kernel events from the kernel's own set. The story of a call, in its order:
//!
//! 1. [`epoll_wait`] leaves a set without members of ours to the kernel ([`super::plain`]).
//! 2. [`wait_long`] refuses what the kernel would refuse, and finds the room for the answer ([`super::room`]).
//! 3. [`EpollWait::run`] looks at the members that have rung or are queued ([`EpollWait::ring_events`], by `answer.rs` and
//!    [`super::look`]). If one of them has something, that is the answer, with what the kernel has beside it.
//! 4. Otherwise it waits awake for as long as that is worth while ([`EpollWait::spin`]).
//! 5. [`EpollWait::sleep`] says that it lies down, so that peers ring ([`Set::lie_down`] and `wires.rs`), looks once more, and sleeps
//!    in the kernel's own set, where the bells are members too.
//! 6. What the kernel has told is put together with what the rings have (`EpollWait::merge` in `answer.rs`), and the call
//!    returns; or only a bell has rung, and it begins again at 3.

mod answer;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{c_int, epoll_event, sigset_t, timespec};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::awake::WaitCall;
use super::plain::KernelWait;
use super::room::{room, without_room};
use super::set::{ArmResult, Set};
use crate::conn::reclaim::ReclaimTimer;
use crate::conn::wait_space::STALL;
use crate::runtime::awake::SHORT;
use crate::runtime::cancel;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::sleep_state::Sleep;
use crate::runtime::spin;
use crate::runtime::thread::{self, Critical, Thread};
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;
use os::access;
use os::epoll::raw_wait_into;
use os::pointer::{self, Fault};

/// The kernel takes no more room than this, in bytes.
const LARGEST_ROOM: usize = i32::MAX as usize;

/// How a wait begins.
pub enum Begun {
    /// Call the real function, then [`KernelWait::end`].
    Plain(KernelWait),
    Verdict(Verdict),
}

/// # Safety
/// As libc's `epoll_pwait2`.
pub unsafe fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Option<&timespec>,
    mask: *const sigset_t,
) -> Begun {
    let number = match table::get(epfd) {
        Slot::Epoll(number) => number,
        Slot::Internal => return Begun::Verdict(Verdict::Fail(libc::EBADF)),
        _ => return Begun::Verdict(Verdict::Bypass),
    };
    cancel::point();
    let (Some(set), Some(me)) = (super::get(number), Thread::me()) else {
        return Begun::Verdict(Verdict::Bypass);
    };
    let call = WaitCall {
        epfd,
        events,
        max,
        timeout,
        mask,
    };
    let plain = set.is_plain();
    // SAFETY: the arguments are those of the program's `epoll_wait`, which all three want.
    unsafe {
        // The only thread: nothing can become ours while it sleeps.
        if plain && thread::is_single() {
            return set.wait_plainly(me, call, None);
        }
        match plain.then(|| doze(set, me, timeout)).flatten() {
            Some(doze) => set.wait_plainly(me, call, Some(doze)),
            None => Begun::Verdict(wait_long(set, me, call)),
        }
    }
}

/// The kernel keeps the time, as long as the set stays plain. Neither this nor [`wait_long`] is inlined: a wait that needs
/// nothing of ours must not pay for their frames.
#[inline(never)]
fn doze(set: &'static Set, me: &'static Thread, timeout: Option<&timespec>) -> Option<KernelWait> {
    set.doze(me, WaitLimit::new(timeout, Deadline::roughly_after)?)
}

/// When it ends by itself.
#[derive(Clone, Copy)]
pub struct WaitLimit {
    deadline: Deadline,
    impatient: bool,
}

impl WaitLimit {
    /// `None` for a time that the kernel shall refuse itself.
    #[inline]
    fn new(timeout: Option<&timespec>, after: impl Fn(Duration) -> Deadline) -> Option<WaitLimit> {
        let deadline = match timeout {
            None => Deadline::never(),
            Some(time) if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) => {
                return None;
            }
            Some(time) => after(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        };
        let impatient = timeout.is_some_and(|time| time.tv_sec == 0 && time.tv_nsec == 0);
        Some(WaitLimit {
            deadline,
            impatient,
        })
    }
}

/// If the arguments are what they should be; others the kernel answers as it likes.
///
/// # Safety
/// As for `epoll_wait`.
#[inline(never)]
unsafe fn wait_long(set: &'static Set, me: &'static Thread, call: WaitCall<'_>) -> Verdict {
    let WaitCall {
        epfd,
        events,
        max,
        timeout,
        mask,
    } = call;
    let Some(limit) = WaitLimit::new(timeout, Deadline::after) else {
        return Verdict::Bypass;
    };
    if max <= 0 || max as usize > LARGEST_ROOM / size_of::<epoll_event>() {
        return Verdict::Bypass;
    }
    if let Some(fault) = pointer::fault(events, max as usize * size_of::<epoll_event>()) {
        return without_room(epfd, fault, timeout, mask);
    }
    if !access::is_mask(mask) {
        return Verdict::Bypass;
    }
    let room = room(events, max as usize);
    if room == 0 {
        return without_room(epfd, Fault::AtCopy, timeout, mask);
    }
    // SAFETY: so many can be written (`room`), for the length of the call; nothing says that they have been.
    let events = unsafe { std::slice::from_raw_parts_mut(events.cast(), room) };
    wait_for_ours(EpollWait::new(set, epfd, me, limit, mask), events)
}

pub(super) fn wait_for_ours(wait: EpollWait, events: &mut [MaybeUninit<epoll_event>]) -> Verdict {
    let (set, result) = (wait.set, wait.run(events));
    drop(wait);
    if set.watched.load(Ordering::Relaxed) {
        set.refresh();
    }
    verdict(result)
}

fn verdict(result: Result<usize, Errno>) -> Verdict {
    match result {
        Ok(n) => Verdict::Done(n as isize),
        Err(error) => Verdict::Fail(error.raw_os_error()),
    }
}

const ZERO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// A wait without any time does not let signals in that only its mask allows.
const ALMOST_ZERO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1,
};

pub(super) struct EpollWait {
    set: &'static Set,
    epfd: RawFd,
    me: &'static Thread,
    deadline: Deadline,
    impatient: bool,
    mask: *const sigset_t,
    seen: Cell<Seen>,
    bed: Cell<Option<Sleep>>,
}

impl EpollWait {
    pub(super) fn new(
        set: &'static Set,
        epfd: RawFd,
        me: &'static Thread,
        limit: WaitLimit,
        mask: *const sigset_t,
    ) -> EpollWait {
        EpollWait {
            set,
            epfd,
            me,
            deadline: limit.deadline,
            impatient: limit.impatient,
            mask,
            seen: Cell::new(Seen::now(me)),
            bed: Cell::new(None),
        }
    }

    fn run(&self, events: &mut [MaybeUninit<epoll_event>]) -> Result<usize, Errno> {
        loop {
            crate::runtime::engine_flag::glance();
            let n = self.ring_events(events);
            if n > 0 {
                self.set.note_answer(false);
                return Ok(n);
            }
            if !self.impatient {
                self.block_signals();
                if self.seen.get().any_handler(self.me) {
                    return Err(Errno::INTR);
                }
                if self.spin() {
                    continue;
                }
            }
            match self.sleep(events)? {
                Slept::Told(n) => {
                    self.set.note_answer(true);
                    return Ok(n);
                }
                Slept::Look if self.impatient => return Ok(self.ring_events(events)),
                Slept::Look => {}
                Slept::TimedOut => return Ok(0),
            }
        }
    }

    /// Events of managed members that hold now.
    fn ring_events(&self, events: &mut [MaybeUninit<epoll_event>]) -> usize {
        if events.is_empty() {
            return 0;
        }
        match self.look(events) {
            (0, true) => self.look(events).0,
            (told, _) => told,
        }
    }

    /// Inside a critical section, so that no handler jumps away from a spinner's place.
    fn spin(&self) -> bool {
        let Some(_critical) = Critical::enter() else {
            return false;
        };
        if self.set.waits_for_kernel() && !self.deadline.is_within(SHORT) {
            self.set
                .look_awake(self.me, self.epfd, || self.something_came());
            return false;
        }
        let managed = self
            .set
            .hold()
            .is_some_and(|mut held| held.state().has_board());
        managed
            && spin::until(
                &self.set.spin,
                || self.set.spin.senders_near(),
                || {
                    self.me.deferred.any()
                        || self.seen.get().any_handler(self.me)
                        || self
                            .set
                            .hold()
                            .is_some_and(|mut held| held.state().posted())
                },
            )
    }

    fn sleep(&self, events: &mut [MaybeUninit<epoll_event>]) -> Result<Slept, Errno> {
        let bed = match self.bed.take() {
            Some(bed) => bed,
            None if self.impatient && self.mask.is_null() => Sleep::light(self.me),
            None if self.impatient => Sleep::masked(self.me),
            None => Sleep::prepare(self.me, self.seen.get()).ok_or(Errno::INTR)?,
        };
        let nap = ReclaimTimer::begin();
        bed.make_bed();
        let lain = self.lie_down(&bed);
        self.set.refresh();
        if lain.ringing && !self.impatient && self.something_came() {
            self.keep_masked(bed);
            nap.end();
            return Ok(Slept::Look);
        }
        let forever = crate::runtime::process::config().spin == rendezvous::config::Spin::Forever
            && lain.ringing;
        let left = match (self.impatient, forever) {
            (true, _) => Some(ZERO),
            (false, true) => Some(ALMOST_ZERO),
            (false, false) if lain.stalled => Deadline::after(STALL).min(self.deadline).left(),
            (false, false) => nap.limit(self.deadline).left(),
        };
        let slept = bed.by(self.mask, |door, mask| {
            raw_wait_into(door, self.epfd, events, left, mask)
        });
        match slept {
            Ok(_) => self.keep_masked(bed),
            Err(_) => drop(bed),
        }
        nap.end();
        let n = slept?;
        if n == 0 {
            let again = !self.impatient && !self.deadline.passed();
            self.look_at_stalled();
            return Ok(if again { Slept::Look } else { Slept::TimedOut });
        }
        // SAFETY: the kernel has just written so many.
        Ok(unsafe { self.merge(events, n, &lain) })
    }

    /// Counts us among the set's sleepers.
    fn lie_down(&self, bed: &Sleep) -> ArmResult {
        // Nobody else must find it half done.
        let _critical = Critical::enter();
        bed.in_set(self.set);
        self.set.lie_down()
    }

    /// Gets up; a mask of the program's own holds until the call ends.
    fn keep_masked(&self, bed: Sleep) {
        bed.make_bed();
        self.bed.set(Some(bed).filter(|_| !self.mask.is_null()));
    }

    /// A mask of the program's own holds for the whole wait: from here on nothing runs but in the
    /// sleep. Handlers that ran before came before the mask did.
    fn block_signals(&self) {
        if self.mask.is_null() {
            return;
        }
        let bed = self.bed.take().unwrap_or_else(|| {
            let bed = Sleep::masked(self.me);
            self.seen.set(Seen::now(self.me));
            bed
        });
        self.bed.set(Some(bed));
    }

    fn something_came(&self) -> bool {
        self.set.hold().is_some_and(|mut held| {
            let state = held.state();
            state.posted() || state.queued() > 0
        })
    }

    /// Time is up for those whose consumer does not read.
    fn look_at_stalled(&self) {
        if let Some(mut held) = self.set.hold() {
            let state = held.state();
            let stalled: Vec<_> = state.stalled.iter().copied().collect();
            stalled.into_iter().for_each(|fd| state.enqueue(fd));
        }
    }
}

enum Slept {
    /// The kernel had this many events for the program.
    Told(usize),
    Look,
    TimedOut,
}
