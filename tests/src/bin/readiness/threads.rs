//! Several threads and one set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP};

use crate::set::Set;
use crate::world::*;

/// Threads that wait on the set and count what they are told, until told to end.
struct Waiters {
    end: Arc<AtomicBool>,
    told: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Waiters {
    fn start(set: Set, threads: usize, act: impl Fn(u64) + Clone + Send + 'static) -> Self {
        let (end, told) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let one = || {
            let (end, told, act) = (end.clone(), told.clone(), act.clone());
            std::thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    for (data, _) in set.take(4, 50) {
                        told.fetch_add(1, Ordering::SeqCst);
                        act(data);
                    }
                }
            })
        };
        let threads = (0..threads).map(|_| one()).collect();
        Self { end, told, threads }
    }

    /// Waits until so many events were told; more may come later.
    fn reach(&self, count: u64) {
        let start = Instant::now();
        while self.told.load(Ordering::SeqCst) < count {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "an event is missing"
            );
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn count(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }

    fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("waiter");
        }
    }
}

/// Each arrival is told to one thread.
pub fn edge_events_come_once() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN | EPOLLET, 1);
    let waiters = Waiters::start(set, 4, |_| ());
    for round in 1..=200 {
        send(ends.near, 1);
        waiters.reach(round);
        if round % 10 == 0 {
            settle();
            assert_eq!(waiters.count(), round, "told twice");
        }
    }
    settle();
    say("events", waiters.count());
    waiters.end();
}

pub fn one_shot_comes_once() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN | EPOLLONESHOT, 1);
    let waiters = Waiters::start(set, 4, |_| ());
    send(ends.near, 1);
    waiters.reach(1);
    for round in 2..=200 {
        set.modify(ends.far, EPOLLIN | EPOLLONESHOT, round);
        waiters.reach(round);
        if round % 10 == 0 {
            settle();
            assert_eq!(waiters.count(), round, "told twice");
        }
    }
    settle();
    say("events", waiters.count());
    waiters.end();
}

/// This thread, and those that it starts, run on one CPU.
fn stay_here() {
    // SAFETY: all zero is an empty set, which lives across the calls.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut cpus);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &cpus), 0);
    }
}

/// Whoever is woken by this on the same CPU runs at once, in the middle of it.
fn giving_way<T>(act: impl FnOnce() -> T) -> T {
    let set = |policy| {
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameter lives across the call.
        assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &none) }, 0);
    };
    set(libc::SCHED_IDLE);
    let result = act();
    set(libc::SCHED_OTHER);
    result
}

/// A shot that goes to a thread which slept on the set before the member came is fired, also when the
/// member's connection is accelerated later.
pub fn one_shot_for_a_sleeper() {
    const EVENTS: i32 = EPOLLIN | EPOLLONESHOT;
    stay_here();
    for re_armed in [false, true] {
        for _ in 0..10 {
            let (quiet, ends, set) = (fresh(), fresh(), Set::new());
            set.add(quiet.far, EPOLLIN, 1);
            if re_armed {
                set.add(ends.far, EPOLLIN, 2);
            }
            send(ends.near, 1);
            if re_armed {
                set.modify(ends.far, 0, 2);
            }
            settle();
            let waiters = Waiters::start(set, 1, |_| ());
            std::thread::sleep(Duration::from_millis(20));
            giving_way(|| match re_armed {
                false => set.add(ends.far, EVENTS, 2),
                true => set.modify(ends.far, EVENTS, 2),
            });
            waiters.reach(1);
            recv(ends.far, 10);
            ends.warm_up();
            send(ends.near, 1);
            std::thread::sleep(Duration::from_millis(20));
            let disabled = waiters.count();
            set.modify(ends.far, EVENTS, 2);
            waiters.reach(disabled + 1);
            settle();
            say("told", format!("{disabled}, re-armed {}", waiters.count()));
            waiters.end();
            for fd in [quiet.near, quiet.far, ends.near, ends.far, set.0] {
                close(fd);
            }
        }
    }
}

/// While a level-triggered member is ready nobody sleeps.
pub fn level_wakes_all() {
    let (ends, set) = (warm(), Set::new());
    set.add(ends.far, EPOLLIN, 1);
    let told = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let told = told.clone();
            std::thread::spawn(move || {
                let found = set.take(1, 5000).len() as u64;
                told.fetch_add(found, Ordering::SeqCst);
                // Nobody reads, and nobody waits a second time.
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    send(ends.near, 1);
    for thread in threads {
        thread.join().expect("waiter");
    }
    say("threads that were told", told.load(Ordering::SeqCst));
}

/// What one thread does while another waits on the set, with a quiet and a ready connection.
type Change = (&'static str, fn(Set, &Ends, &Ends));

/// Members come, change and go while others wait.
pub fn changes_while_waiting() {
    let (quiet, ready, set) = (warm(), warm(), Set::new());
    set.add(quiet.far, EPOLLIN, 1);
    send(ready.near, 1);
    let steps: [Change; 6] = [
        ("added ready", |set, _, ready| {
            drop(set.add(ready.far, EPOLLIN | EPOLLONESHOT, 2))
        }),
        ("re-armed", |set, _, ready| {
            drop(set.modify(ready.far, EPOLLIN | EPOLLONESHOT, 3))
        }),
        ("asked for more", |set, quiet, _| {
            drop(set.modify(quiet.far, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 4));
        }),
        ("asked for input", |set, quiet, _| {
            set.modify(quiet.far, EPOLLIN, 5);
            send(quiet.near, 1);
        }),
        ("removed and added", |set, quiet, _| {
            recv(quiet.far, 10);
            set.remove(quiet.far);
            set.add(quiet.far, EPOLLIN | EPOLLET, 6);
            send(quiet.near, 1);
        }),
        ("closed", |_, quiet, _| close(quiet.near)),
    ];
    for (what, step) in steps {
        let waiter = std::thread::spawn(move || {
            let start = Instant::now();
            (set.wait(5000), start.elapsed() < Duration::from_secs(4))
        });
        std::thread::sleep(Duration::from_millis(50));
        step(set, &quiet, &ready);
        let (told, soon) = waiter.join().expect("waiter");
        say(what, format!("{told}, soon: {soon}"));
    }
}

/// Threads fall asleep before the set's only connection becomes accelerated, and stay asleep while it
/// does: each byte then wakes one of them.
pub fn accelerated_while_they_sleep() {
    for sleepers in [1, 3] {
        let (ends, set) = (fresh(), Set::new());
        set.add(ends.far, EPOLLRDHUP, 1);
        let told = Arc::new(AtomicU64::new(0));
        let far = ends.far;
        let threads: Vec<_> = (0..sleepers)
            .map(|_| {
                let told = told.clone();
                std::thread::spawn(move || {
                    let found = set.take(1, 5000);
                    recv(far, 10);
                    told.fetch_add(found.len() as u64, Ordering::SeqCst);
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        ends.warm_up();
        set.modify(ends.far, EPOLLIN | EPOLLET, 2);
        for count in 1..=sleepers {
            send(ends.near, 1);
            let start = Instant::now();
            while told.load(Ordering::SeqCst) < count && start.elapsed() < Duration::from_secs(4) {
                std::thread::sleep(Duration::from_micros(100));
            }
            say("woken", told.load(Ordering::SeqCst));
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("sleeper"));
    }
}

/// The reader takes a little and then waits for the writer, who waits until it can write: what the
/// kernel would take, it must be able to write.
pub fn stalled_consumer() {
    const TOTAL: u64 = 1_500_000;
    for by_set in [false, true] {
        let ends = warm();
        let (near, far) = (ends.near, ends.far);
        let reader = std::thread::spawn(move || {
            // In small bites, so that some of them fall between two looks of the writer.
            let mut taken = 0;
            while taken < 20_000 {
                if poll_one(far, libc::POLLIN, 10_000) != 0 {
                    taken += recv(far, 100).parse::<u64>().unwrap_or(0);
                }
            }
            taken
        });
        let set = Set::new();
        set.add(near, EPOLLOUT, 1);
        let mut sent = 0;
        while sent < TOTAL {
            let ready = if by_set {
                set.take(1, 5000).len() == 1
            } else {
                poll_one(near, libc::POLLOUT, 5000) != 0
            };
            assert!(ready, "not writable after {sent} bytes");
            sent += send(near, 8000).parse::<u64>().unwrap_or(0);
        }
        let taken = reader.join().expect("reader");
        say("left", drain(far, sent - taken));
    }
}
