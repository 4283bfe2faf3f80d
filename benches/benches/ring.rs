//! The ring by itself, without sockets: what a push and a pull cost on one thread, a round trip, one on a
//! random one of many rings, and a stream of small messages between two cores, and a publish that nobody
//! waits for; beside them a round trip of one word, and of messages that have cache lines of their own.

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use benches::line;
use benches::ring::{self, RingEnd};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use netstack::ring::Tripwire;

const SMALL: usize = 64;

fn pair() -> (RingEnd, RingEnd) {
    ring::pair().expect("memory")
}

/// Keeps the calling thread on one core.
fn pin(core: usize) {
    // SAFETY: a zeroed set is an empty one, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("push+pull");
    for size in [SMALL, 1 << 10, 64 << 10] {
        let (mut from, mut to) = pair();
        let (bytes, mut back) = (vec![7; size], vec![0; size]);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} B"), |b| {
            b.iter(|| {
                from.write_all(black_box(&bytes)).expect("sent");
                to.read_exact(black_box(&mut back)).expect("came");
            });
        });
    }
    group.finish();
}

/// Runs `timed` on core 0 while `other` runs on core 1.
fn on_two_cores(other: impl FnOnce() + Send, timed: impl FnOnce() + Send) -> Duration {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            other();
        });
        let timed = scope.spawn(|| {
            pin(0);
            let begin = Instant::now();
            timed();
            begin.elapsed()
        });
        timed.join().expect("the timed end")
    })
}

fn answer(end: &mut RingEnd) -> std::io::Result<()> {
    let mut message = [0; SMALL];
    end.read_exact(&mut message)?;
    end.write_all(&message)
}

fn ask(end: &mut RingEnd) {
    let mut message = [7; SMALL];
    end.write_all(&message).expect("sent");
    end.read_exact(&mut message).expect("came");
}

fn round_trips(count: u64) -> Duration {
    let (mut here, mut there) = pair();
    // Until the other end has gone.
    let echo = || while answer(&mut there).is_ok() {};
    on_two_cores(echo, move || (0..count).for_each(|_| ask(&mut here)))
}

/// A word that the other end answers by the next: what a cache line takes there and back.
fn word_round_trips(count: u64) -> Duration {
    let word = AtomicU64::new(0);
    let wait_for = |value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let echo = || {
        for n in 0..count {
            wait_for(2 * n + 1);
            word.store(2 * n + 2, Ordering::Release);
        }
    };
    on_two_cores(echo, || {
        for n in 0..count {
            word.store(2 * n + 1, Ordering::Release);
            wait_for(2 * n + 2);
        }
    })
}

/// Messages of so many words in lines that carry their numbers, too.
fn line_round_trips<const WORDS: usize>(count: u64, fenced: bool) -> Duration {
    let (mut here, mut there) = line::pair(fenced);
    let echo = move || {
        let mut message = [0; WORDS];
        for _ in 0..count {
            there.receive(&mut message);
            black_box(there.send(&message));
        }
    };
    on_two_cores(echo, move || {
        let mut message = [7; WORDS];
        for _ in 0..count {
            black_box(here.send(&message));
            here.receive(black_box(&mut message));
        }
    })
}

/// What `crowd` does with sockets: the hardware's own part of that. One word tells the other end which
/// ring is asked, as a board does.
fn round_trips_among(rings: &mut [(RingEnd, RingEnd)], count: u64) -> Duration {
    const NOBODY: usize = usize::MAX;
    let asked = AtomicUsize::new(NOBODY);
    let (mut here, mut there): (Vec<_>, Vec<_>) = rings.iter_mut().map(|(a, b)| (a, b)).unzip();
    let echo = || {
        for _ in 0..count {
            let chosen = loop {
                match asked.load(Ordering::Acquire) {
                    NOBODY => std::hint::spin_loop(),
                    chosen => break chosen,
                }
            };
            asked.store(NOBODY, Ordering::Relaxed);
            answer(there[chosen]).expect("answered");
        }
    };
    on_two_cores(echo, || {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..count {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let chosen = (random % here.len() as u64) as usize;
            let mut message = [7; SMALL];
            here[chosen].write_all(&message).expect("sent");
            asked.store(chosen, Ordering::Release);
            here[chosen].read_exact(&mut message).expect("came");
        }
    })
}

fn messages(count: u64) -> Duration {
    let (mut here, mut there) = pair();
    let send = || {
        for _ in 0..count {
            there.write_all(&[7; SMALL]).expect("sent");
        }
    };
    on_two_cores(send, || {
        let mut message = [0; SMALL];
        for _ in 0..count {
            here.read_exact(black_box(&mut message)).expect("came");
        }
    })
}

fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("two cores");
    group.throughput(Throughput::Elements(1));
    group.bench_function("round trip 64 B", |b| b.iter_custom(round_trips));
    group.bench_function("round trip of a word", |b| b.iter_custom(word_round_trips));
    for (name, fenced) in [("", false), (", fenced", true)] {
        group.bench_function(format!("round trip 56 B in a line{name}"), |b| {
            b.iter_custom(|count| line_round_trips::<7>(count, fenced))
        });
        group.bench_function(format!("round trip 64 B in two lines{name}"), |b| {
            b.iter_custom(|count| line_round_trips::<8>(count, fenced))
        });
    }
    for number in [1, 1000, 5000] {
        let mut rings: Vec<_> = (0..number).map(|_| pair()).collect();
        let name = format!("round trip 64 B on a random one of {number}");
        group.bench_function(name, |b| {
            b.iter_custom(|count| round_trips_among(&mut rings, count))
        });
    }
    group.bench_function("stream 64 B", |b| b.iter_custom(messages));
    group.finish();
}

fn tripwire(c: &mut Criterion) {
    let wire = Tripwire::new();
    c.bench_function("trip, nothing armed", |b| {
        b.iter(|| black_box(&wire).trip(black_box(1)))
    });
    c.bench_function("trip, armed further on", |b| {
        wire.arm(0, 1, u64::MAX);
        b.iter(|| black_box(&wire).trip(black_box(1)));
        wire.disarm(0);
    });
    c.bench_function("arm + trip", |b| {
        b.iter(|| {
            black_box(&wire).arm(0, 1, black_box(1));
            black_box(&wire).trip(black_box(1))
        })
    });
}

criterion_group!(benches, one_thread, two_threads, tripwire);
criterion_main!(benches);
