//! The ring by itself, without sockets: what a push and a pull cost on one thread, a round trip and
//! a stream of small messages between two cores, and a publish that nobody waits for.

use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use benches::ring::{self, End};
use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use netstack::ring::Tripwire;

const SMALL: usize = 64;

fn pair() -> (End, End) {
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

/// Runs `timed` on core 0 with one end, while `other` runs on core 1 with the other end.
fn on_two_cores(other: impl FnOnce(End) + Send, timed: impl FnOnce(&mut End) + Send) -> Duration {
    let (mut here, there) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            other(there);
        });
        let timed = scope.spawn(move || {
            pin(0);
            let begin = Instant::now();
            timed(&mut here);
            begin.elapsed()
        });
        timed.join().expect("the timed end")
    })
}

fn round_trips(count: u64) -> Duration {
    let echo = |mut end: End| {
        let mut message = [0; SMALL];
        // Until the other end has gone.
        while end.read_exact(&mut message).is_ok() {
            end.write_all(&message).expect("sent");
        }
    };
    on_two_cores(echo, |end| {
        let mut message = [7; SMALL];
        for _ in 0..count {
            end.write_all(&message).expect("sent");
            end.read_exact(&mut message).expect("came");
        }
    })
}

fn messages(count: u64) -> Duration {
    let send = |mut end: End| {
        for _ in 0..count {
            end.write_all(&[7; SMALL]).expect("sent");
        }
    };
    on_two_cores(send, |end| {
        let mut message = [0; SMALL];
        for _ in 0..count {
            end.read_exact(black_box(&mut message)).expect("came");
        }
    })
}

fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("two cores");
    group.throughput(Throughput::Elements(1));
    group.bench_function("round trip 64 B", |b| b.iter_custom(round_trips));
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
