//! The thread that polls the engine when the program does not: somebody of the program sleeps, and is rung
//! when something has come for it; or nobody has called for a while, and acknowledgements are due.
//!
//! While threads of the program poll the engine themselves it keeps out of their way, but for a look at
//! each tick. It has all signals blocked, and never touches a connection.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

use firmware::Rest;
use netstack::time::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::thread::futex;
use rustix::time::Timespec;

use super::now;
use super::slot::SLOT;
use crate::runtime::engine_flag::is_on;
use os::fds::InternalFd;
use os::fds::to_high;
use os::mask;
use shm::waiter;

/// So long the program may do without the engine;
const TICK: Duration = Duration::from_millis(1);
/// and so long one that has polled in all ticks before: each takes the CPU away from whoever polls.
const LONGEST_TICK: Duration = Duration::from_millis(8);
/// Polls in a row, on duty.
const POLLS: u32 = 256;
/// Between two looks while nothing is due, and somebody sleeps, who has told what he has sent, or the engine serves
/// nobody;
const LONGEST: Duration = Duration::from_secs(1);
/// and while all of the program computes, which does not tell.
const LONGEST_ALONE: Duration = Duration::from_millis(20);

os::process_wide! {
    /// 1: it waits for a tick, and wants to be told when somebody lies down.
    static OFF: AtomicU32 = AtomicU32::new(0);
    /// How often the engine was polled.
    static POLLED: AtomicU32 = AtomicU32::new(0);
    /// When the engine wants to be polled again, in nanoseconds, as its last poll has said.
    static DUE: AtomicU64 = AtomicU64::new(u64::MAX);
    /// Until when it waits for frames.
    static UNTIL: AtomicU64 = AtomicU64::new(0);
    /// Ends that wait.
    static BELL: OnceLock<InternalFd> = OnceLock::new();
    /// The number of its duplicate of the queue's socket, which nobody but it uses; -1: none.
    static WATCH: AtomicI32 = AtomicI32::new(-1);
    /// Which of them is the last that was started: earlier ones end.
    static LATEST: AtomicUsize = AtomicUsize::new(0);
}

pub fn start(watch: InternalFd) {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    if let Ok(bell) = eventfd(0, flags).and_then(to_high) {
        // The first one serves them all.
        let _ = BELL.set(bell);
    }
    WATCH.store(watch.as_raw_fd(), Ordering::Relaxed);
    let number = LATEST.fetch_add(1, Ordering::AcqRel) + 1;
    let blocked = mask::block_all();
    let started = std::thread::Builder::new()
        .name("ulsock-nic".to_owned())
        .stack_size(256 << 10)
        .spawn(move || run(number, &watch));
    mask::replace(blocked);
    if started.is_err() {
        WATCH.store(-1, Ordering::Relaxed);
        os::log::debug(format_args!(
            "no thread for the engine: it is polled by calls alone"
        ));
    }
}

/// In a forked child there is none.
pub fn forget() {
    OFF.store(0, Ordering::Relaxed);
    UNTIL.store(0, Ordering::Relaxed);
    let watch = WATCH.swap(-1, Ordering::Relaxed);
    if watch >= 0 {
        // SAFETY: its owner was a thread that this process does not have.
        drop(unsafe { InternalFd::left_open(watch) });
    }
}

/// The engine has been polled, by whoever has its seat.
pub fn note(rest: &Rest) {
    POLLED.store(polled().wrapping_add(1), Ordering::Relaxed);
    let due = match (rest.busy, rest.deadline) {
        (true, _) => 0,
        (false, Some(deadline)) => deadline.as_nanos(),
        (false, None) => u64::MAX,
    };
    DUE.store(due, Ordering::Relaxed);
}

/// Changes whenever somebody has polled.
fn polled() -> u32 {
    POLLED.load(Ordering::Relaxed)
}

/// Somebody has just lain down: the helper is on duty.
#[inline(never)]
pub fn wake() {
    if OFF.load(Ordering::SeqCst) == 1 {
        OFF.store(0, Ordering::SeqCst);
        let _ = futex::wake(&OFF, futex::Flags::PRIVATE, 1);
    } else if DUE.load(Ordering::Relaxed) < UNTIL.load(Ordering::SeqCst) {
        // It waits for longer than what we have sent meanwhile can.
        ring();
    }
}

/// It looks at the engine soon. Also from a signal handler.
pub fn ring() {
    let _ = BELL
        .get()
        .map(|bell| rustix::io::write(bell, &1u64.to_ne_bytes()));
}

fn run(number: usize, watch: &InternalFd) {
    // Nobody has called since the last look.
    let mut idle = false;
    let mut length = TICK;
    while LATEST.load(Ordering::Relaxed) == number {
        let on_duty = !is_on() || waiter::somebody_sleeps() || idle;
        let polls = match on_duty {
            true => wait_for_frames(watch, work()),
            false => tick(length),
        };
        idle = polled() == polls;
        length = match on_duty {
            true => TICK,
            false => LONGEST_TICK.min(2 * length),
        };
    }
}

/// Polls until there is nothing to do for now; how often the engine had been polled by then.
fn work() -> u32 {
    for _ in 0..POLLS {
        let mut busy = true;
        let had = SLOT.try_with(|station| {
            station.poll(now());
            busy = station.rest.busy || station.rest.full;
        });
        if !had {
            rustix::thread::sched_yield();
        } else if !busy {
            break;
        }
    }
    polled()
}

fn tick(length: Duration) -> u32 {
    let polls = polled();
    OFF.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !waiter::somebody_sleeps() {
        let _ = futex::wait(&OFF, futex::Flags::PRIVATE, 1, timespec(length).as_ref());
    }
    OFF.store(0, Ordering::SeqCst);
    polls
}

/// Until frames come, the engine wants to be polled, or somebody who lies down knows better.
fn wait_for_frames(watch: &InternalFd, polls: u32) -> u32 {
    let now = now();
    let due = Instant::from_nanos(DUE.load(Ordering::Relaxed));
    let longest = match waiter::somebody_sleeps() || !is_on() {
        true => LONGEST,
        false => LONGEST_ALONE,
    };
    let until = due.min(now + longest);
    UNTIL.store(until.as_nanos(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    // What has been sent since the last look is seen here, or by whoever lies down after it.
    if DUE.load(Ordering::Relaxed) >= until.as_nanos() && until > now {
        let mut fds = [PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN)].to_vec();
        let bell = BELL
            .get()
            .map(|bell| PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN));
        fds.extend(bell);
        let _ = poll(&mut fds, timespec(until.since(now)).as_ref());
        let mut rings = [0; 8];
        let _ = BELL.get().map(|bell| rustix::io::read(bell, &mut rings));
    }
    UNTIL.store(0, Ordering::SeqCst);
    polls
}

fn timespec(time: Duration) -> Option<Timespec> {
    time.try_into().ok()
}
