//! poll, select, epoll; and a look at everything.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libc::{c_int, c_short, epoll_event, pollfd, timespec, timeval};

use super::options::show_count;
use super::outcome::Outcome;
use super::{SLOTS, name, number, uring};
use crate::differ::names;
use crate::differ::program::Step;

const EVERYTHING: c_short = libc::POLLIN
    | libc::POLLPRI
    | libc::POLLOUT
    | libc::POLLRDHUP
    | libc::POLLRDNORM
    | libc::POLLRDBAND
    | libc::POLLWRNORM
    | libc::POLLWRBAND;

/// The names that programs give to them.
const EPOLL_SETS: [i64; 2] = [6, 7];

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "poll" | "ppoll" => poll(step, outcome),
        "select" | "pselect" => select(step, outcome),
        "epoll_create" => epoll_create(step, outcome),
        "epoll_ctl" => epoll_ctl(step, outcome),
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => epoll_wait(step, outcome),
        "probe" => probe(outcome),
        _ => return false,
    }
    true
}

/// The names in the bits of `set`.
fn slots(set: i64) -> impl Iterator<Item = i64> {
    (0..SLOTS as i64).filter(move |slot| set >> slot & 1 == 1)
}

/// Adds a note if a call that timed out came back too early.
fn check_time(outcome: &mut Outcome, start: Instant, result: i64, timeout: i64) {
    if result == 0 && timeout > 0 && start.elapsed() < Duration::from_millis(timeout as u64) {
        outcome.word("early");
    }
}

fn timespec(timeout: i64) -> timespec {
    timespec {
        tv_sec: timeout / 1000,
        tv_nsec: timeout % 1000 * 1_000_000,
    }
}

/// All signals, or none.
fn mask(step: &Step) -> libc::sigset_t {
    // SAFETY: both calls initialise the set.
    unsafe {
        let mut set = std::mem::zeroed();
        if step.get("masked") != 0 {
            libc::sigfillset(&raw mut set);
        } else {
            libc::sigemptyset(&raw mut set);
        }
        set
    }
}

fn poll(step: &Step, outcome: &mut Outcome) {
    let events = step.get("events") as c_short;
    let mut fds: Vec<pollfd> = slots(step.get("set"))
        .map(|slot| pollfd {
            fd: number(slot),
            events,
            revents: -1,
        })
        .collect();
    let (timeout, start) = (step.get("timeout"), Instant::now());
    let (time, mask) = (timespec(timeout.max(0)), mask(step));
    let time = if timeout < 0 {
        std::ptr::null()
    } else {
        &raw const time
    };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: pointer and count describe `fds`.
    let result = outcome.call(|| unsafe {
        match step.call.as_str() {
            "ppoll" => libc::ppoll(fds.as_mut_ptr(), count, time, &raw const mask).into(),
            _ => libc::poll(fds.as_mut_ptr(), count, timeout as c_int).into(),
        }
    });
    check_time(outcome, start, result, timeout);
    for (fd, slot) in fds
        .iter()
        .zip(slots(step.get("set")))
        .filter(|_| result >= 0)
    {
        outcome.word(format!("{slot}:{}", names::events(fd.revents.into())));
    }
}

fn select(step: &Step, outcome: &mut Outcome) {
    // SAFETY: sets of zeroes are empty.
    let mut sets: [libc::fd_set; 3] = unsafe { std::mem::zeroed() };
    let open: Vec<i64> = slots(step.get("set"))
        .filter(|slot| number(*slot) >= 0)
        .collect();
    let wanted = [step.get("read"), step.get("write"), step.get("except")];
    for slot in &open {
        for (set, _) in sets
            .iter_mut()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted != 0)
        {
            // SAFETY: programs use low numbers only.
            unsafe { libc::FD_SET(number(*slot), set) };
        }
    }
    let result = select_call(step, outcome, &mut sets);
    for slot in open.iter().filter(|_| result >= 0) {
        // SAFETY: as above.
        let found = sets
            .each_ref()
            .map(|set| u8::from(unsafe { libc::FD_ISSET(number(*slot), set) }));
        outcome.word(format!("{slot}:{}{}{}", found[0], found[1], found[2]));
    }
}

fn select_call(step: &Step, outcome: &mut Outcome, sets: &mut [libc::fd_set; 3]) -> i64 {
    let (timeout, start) = (step.get("timeout"), Instant::now());
    let mut time = timeval {
        tv_sec: timeout / 1000,
        tv_usec: timeout % 1000 * 1000,
    };
    let exact = timespec(timeout.max(0));
    let forever = timeout < 0;
    let [read, write, except] = sets.each_mut().map(|set| &raw mut *set);
    let mask = mask(step);
    // SAFETY: the sets have room for the 64 numbers.
    let result = outcome.call(|| unsafe {
        if step.call == "pselect" {
            let time = if forever {
                std::ptr::null()
            } else {
                &raw const exact
            };
            return libc::pselect(64, read, write, except, time, &raw const mask).into();
        }
        let time = if forever {
            std::ptr::null_mut()
        } else {
            &raw mut time
        };
        libc::select(64, read, write, except, time).into()
    });
    check_time(outcome, start, result, timeout);
    result
}

fn epoll_create(step: &Step, outcome: &mut Outcome) {
    // SAFETY: plain numbers.
    let fd = outcome.call(|| unsafe { libc::epoll_create1(0).into() });
    if fd >= 0 {
        name(step.get("to"), fd as c_int);
    }
}

fn epoll_ctl(step: &Step, outcome: &mut Outcome) {
    let mut event = epoll_event {
        events: step.get("events") as u32,
        u64: step.get("data") as u64,
    };
    let (set, fd) = (number(step.get("set")), number(step.get("fd")));
    let op = step.get("op") as c_int;
    // Half of them: a set has members by both ways.
    let by_ring = step.get("data") % 2 == 0;
    outcome.call(|| {
        let result = by_ring.then(|| uring::epoll_ctl(set, op, fd, &mut event));
        // SAFETY: room for one event.
        let plain = || unsafe { libc::epoll_ctl(set, op, fd, &raw mut event).into() };
        result.flatten().unwrap_or_else(plain)
    });
}

/// Room for as many events as a program can have members.
const ROOM: i32 = 16;
/// A wait that rings answer asks the kernel about the other members only now and then.
const MORE_WAITS: usize = 17;

fn epoll_wait(step: &Step, outcome: &mut Outcome) {
    let (timeout, start) = (step.get("timeout"), Instant::now());
    let max = step.find("max").unwrap_or(ROOM.into()).min(ROOM.into()) as c_int;
    let mut found = Vec::new();
    let result = outcome.quietly(|| {
        let (result, events) = wait_once(step, timeout, max);
        found = events;
        result
    });
    check_time(outcome, start, result, timeout);
    if step.get("ordered") != 0 {
        outcome.word(result.to_string());
        let data = found.iter().map(|(data, _)| data.to_string());
        return data.for_each(|data| outcome.word(data));
    }
    // With room for fewer than are ready, who comes first is not defined.
    if max < ROOM {
        return outcome.word(result.to_string());
    }
    let mut times: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    found
        .into_iter()
        .for_each(|event| *times.entry(event).or_default() += 1);
    for _ in 0..if result > 0 { MORE_WAITS } else { 0 } {
        let events = wait_once(step, 0, max).1;
        events
            .into_iter()
            .for_each(|event| *times.entry(event).or_default() += 1);
    }
    outcome.word(times.len().to_string());
    for ((data, events), times) in times {
        let often = if times > 1 { "again" } else { "once" };
        outcome.word(format!(
            "{data}:{}:{often}",
            names::events(i64::from(events))
        ));
    }
}

fn wait_once(step: &Step, timeout: i64, max: c_int) -> (i64, Vec<(u64, u32)>) {
    let mut events = [epoll_event { events: 0, u64: 0 }; ROOM as usize];
    let (time, mask) = (timespec(timeout.max(0)), mask(step));
    let (set, list) = (number(step.get("set")), events.as_mut_ptr());
    // SAFETY: room for `max` events.
    let result = unsafe {
        match step.call.as_str() {
            "epoll_pwait" => libc::epoll_pwait(set, list, max, timeout as c_int, &raw const mask),
            "epoll_pwait2" if timeout >= 0 => {
                libc::epoll_pwait2(set, list, max, &raw const time, &raw const mask)
            }
            _ => libc::epoll_wait(set, list, max, timeout as c_int),
        }
    };
    let found = events[..result.max(0) as usize]
        .iter()
        .map(|event| (event.u64, event.events));
    (result.into(), found.collect())
}

/// Everything that can be asked about all sockets without changing them. Epoll sets are left out: they
/// are no longer accelerated once they were polled.
fn probe(outcome: &mut Outcome) {
    // Also by another name, whose number was closed.
    let is_set = |slot: i64| EPOLL_SETS.iter().any(|set| number(*set) == number(slot));
    let others = |slot: &i64| !EPOLL_SETS.contains(slot) && (number(*slot) < 0 || !is_set(*slot));
    let mut fds: Vec<pollfd> = (0..SLOTS as i64)
        .filter(others)
        .map(|slot| pollfd {
            fd: number(slot),
            events: EVERYTHING,
            revents: 0,
        })
        .collect();
    // SAFETY: pointer and count describe `fds`.
    outcome.call(|| unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0).into() });
    let slots = (0..SLOTS as i64).filter(others);
    for (slot, fd) in slots.zip(&fds).filter(|(_, fd)| fd.fd >= 0) {
        let mut queued = -1;
        // SAFETY: FIONREAD gives an int.
        unsafe { libc::ioctl(fd.fd, libc::FIONREAD, &raw mut queued) };
        outcome.word(format!(
            "{slot}:{}:{}",
            names::events(fd.revents.into()),
            show_count(queued)
        ));
    }
}
