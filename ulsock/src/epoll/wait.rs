//! `epoll_wait`: ring events from the boards, kernel events from the kernel's own set.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::{c_int, epoll_event, sigset_t, timespec};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::kernel::raw_wait;
use super::set::{Set, State};
use crate::api::Verdict;
use crate::conn::wait::Deadline;
use crate::conn::Conn;
use crate::signal::{Blocked, Seen};
use crate::spin;
use crate::table::{self, Slot};
use crate::thread::Thread;
use crate::waiter::Waiter;

/// Kernel members get their turn at least once in so many waits that rings alone could answer.
const HURRY: u32 = 8;

/// # Safety
/// As libc's `epoll_pwait2`.
pub unsafe fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Verdict {
    let number = match table::get(epfd) {
        Slot::Epoll(number) => number,
        Slot::Internal => return Verdict::Fail(libc::EBADF),
        _ => return Verdict::Bypass,
    };
    let (Some(set), Some(me)) = (super::get(number), Thread::me()) else {
        return Verdict::Bypass;
    };
    if max <= 0 || events.is_null() {
        return Verdict::Bypass;
    }
    // SAFETY: the program says that there is room for `max` events; none is read before it is written.
    let events = unsafe { std::slice::from_raw_parts_mut(events, max as usize) };
    // SAFETY: null or valid by contract.
    let deadline = match unsafe { timeout.as_ref() } {
        None => Deadline::never(),
        Some(time) if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) => {
            return Verdict::Bypass
        }
        Some(time) => Deadline::after(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
    };
    // SAFETY: null or valid by contract.
    let impatient =
        unsafe { timeout.as_ref() }.is_some_and(|time| time.tv_sec == 0 && time.tv_nsec == 0);
    let wait = Wait {
        set,
        epfd,
        me,
        deadline,
        impatient,
        mask,
        seen: Seen::now(me),
    };
    match wait.run(events) {
        Ok(n) => Verdict::Done(n as isize),
        Err(error) => Verdict::Fail(error.raw_os_error()),
    }
}

const ZERO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

struct Wait<'a> {
    set: &'a Set,
    epfd: RawFd,
    me: &'static Thread,
    deadline: Deadline,
    impatient: bool,
    mask: *const sigset_t,
    seen: Seen,
}

impl Wait<'_> {
    fn run(&self, events: &mut [epoll_event]) -> Result<usize, Errno> {
        loop {
            let told = self.kernel_turn(events);
            let n = told + self.ring_events(&mut events[told..]);
            if n > told {
                self.set.hurried.fetch_add(1, Ordering::Relaxed);
            }
            if n > 0 {
                return Ok(n);
            }
            if !self.impatient {
                if self.seen.any_handler(self.me) {
                    return Err(Errno::INTR);
                }
                if self.spin() {
                    continue;
                }
            }
            match self.sleep(events)? {
                Slept::Told(n) => return Ok(n + self.ring_events(&mut events[n..])),
                Slept::Look if self.impatient => return Ok(self.ring_events(events)),
                Slept::Look => {}
                Slept::TimedOut => return Ok(0),
            }
        }
    }

    /// Events of managed members that hold now.
    fn ring_events(&self, events: &mut [epoll_event]) -> usize {
        if events.is_empty() {
            return 0;
        }
        let Some(mut held) = self.set.hold() else {
            return 0;
        };
        let state = held.state();
        if !state.has_managed() {
            return 0;
        }
        state.collect();
        let told = gather(state, events);
        // Who has no place in this answer is for another thread that waits.
        if told == events.len() && !state.queue.is_empty() {
            self.set.wake(state);
        }
        told
    }

    /// Rings alone could keep the program busy: now and then the kernel members are asked first.
    fn kernel_turn(&self, events: &mut [epoll_event]) -> usize {
        let hurried = self.set.hurried.load(Ordering::Relaxed);
        if hurried % HURRY != HURRY - 1 {
            return 0;
        }
        self.set
            .hurried
            .store(hurried.wrapping_add(1), Ordering::Relaxed);
        match raw_wait(self.epfd, events, Some(ZERO), std::ptr::null()) {
            Ok(n) => self.keep_theirs(events, n),
            Err(_) => 0,
        }
    }

    fn spin(&self) -> bool {
        let managed = self
            .set
            .hold()
            .is_some_and(|mut held| held.state().has_managed());
        managed
            && spin::until(&self.set.spin, || {
                self.me.deferred.any()
                    || self.seen.any_handler(self.me)
                    || self
                        .set
                        .hold()
                        .is_some_and(|mut held| held.state().posted())
            })
    }

    fn sleep(&self, events: &mut [epoll_event]) -> Result<Slept, Errno> {
        let bed = Bed::lie_down(self.set);
        if bed.waiter.is_some() && !self.impatient && self.something_came() {
            return Ok(Slept::Look);
        }
        let blocked = Blocked::new();
        if self.seen.any_handler(self.me) && !self.impatient {
            return Err(Errno::INTR);
        }
        let forever =
            crate::process::config().spin == crate::config::Spin::Forever && bed.waiter.is_some();
        let left = if forever || self.impatient {
            Some(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            })
        } else {
            self.deadline.left()
        };
        let n = raw_wait(self.epfd, events, left, blocked.sleep_mask(self.mask))?;
        drop(blocked);
        drop(bed);
        if n == 0 {
            return Ok(if forever && !self.impatient && !self.deadline.passed() {
                Slept::Look
            } else {
                Slept::TimedOut
            });
        }
        let theirs = self.keep_theirs(events, n);
        Ok(if theirs > 0 {
            Slept::Told(theirs)
        } else {
            Slept::Look
        })
    }

    fn something_came(&self) -> bool {
        self.set.hold().is_some_and(|mut held| {
            let state = held.state();
            state.posted() || !state.queue.is_empty()
        })
    }

    /// Of `n` kernel events, keeps the program's own and takes note of ours.
    fn keep_theirs(&self, events: &mut [epoll_event], n: usize) -> usize {
        let Some(mut held) = self.set.hold() else {
            return n;
        };
        let mut kept = 0;
        for index in 0..n {
            let event = events[index];
            if !held.state().is_ours(&event) {
                events[kept] = event;
                kept += 1;
            }
        }
        kept
    }
}

enum Slept {
    /// The kernel had this many events for the program.
    Told(usize),
    Look,
    TimedOut,
}

/// While it lives, peers ring the set's bell.
struct Bed<'a> {
    set: &'a Set,
    waiter: Option<&'static Waiter>,
}

impl Bed<'_> {
    /// Under the set's lock, as getting up: one thread's last step must not undo another's first.
    fn lie_down(set: &Set) -> Bed<'_> {
        let mut held = set.hold();
        set.sleepers.fetch_add(1, Ordering::AcqRel);
        let waiter = held.as_mut().and_then(|held| held.state().waiter);
        if let Some(waiter) = waiter {
            waiter.lie_down();
        }
        Bed { set, waiter }
    }
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        let _held = self.set.hold();
        let last = self.set.sleepers.fetch_sub(1, Ordering::AcqRel) == 1;
        if let Some(waiter) = self.waiter.filter(|_| last) {
            waiter.get_up();
        }
    }
}

/// Looks at everyone in the queue once and tells the program of those that are ready.
fn gather(state: &mut State, events: &mut [epoll_event]) -> usize {
    let mut told = 0;
    for _ in 0..state.queue.len() {
        if told == events.len() {
            break;
        }
        let Some(fd) = state.queue.pop_front() else {
            break;
        };
        if let Some(event) = look_at(state, fd) {
            events[told] = event;
            told += 1;
        }
    }
    told
}

fn look_at(state: &mut State, fd: RawFd) -> Option<epoll_event> {
    let member = state.members.get_mut(&fd)?;
    member.queued = false;
    if member.disabled || !member.converted {
        return None;
    }
    let mut revents = ready_now(member)?;
    if revents == 0 {
        // Wires up, then a second look: what came in between has not rung.
        state.arm(fd);
        let member = state.members.get_mut(&fd)?;
        revents = ready_now(member)?;
        if revents == 0 {
            return None;
        }
    }
    tell(state, fd, revents)
}

fn ready_now(member: &mut super::member::Member) -> Option<libc::c_short> {
    let conn = Conn::enter(member.handle)?;
    let tail = conn.tail();
    let revents = conn.revents(member.wanted());
    if revents != 0 {
        member.told = tail;
    }
    Some(revents)
}

fn tell(state: &mut State, fd: RawFd, revents: libc::c_short) -> Option<epoll_event> {
    let member = state.members.get_mut(&fd)?;
    let event = epoll_event {
        events: revents as u16 as u32,
        u64: member.data,
    };
    if member.is_oneshot() {
        member.disabled = true;
    } else if member.is_edge() {
        // The next byte after those that it knows of now is news; if it has come already, so is that.
        state.arm(fd);
        let member = state.members.get(&fd)?;
        if Conn::enter(member.handle).is_some_and(|conn| conn.tail() > member.told) {
            state.enqueue(fd);
        }
    } else {
        state.enqueue(fd);
    }
    Some(event)
}
