//! The ring by itself, without sockets: what a push and a pull cost on one thread, a round trip and
//! a stream of small messages between two cores, and a publish that nobody waits for.

use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{
    Look, Memory, Receiver, RxState, Sender, Shared, Sink, Source, Tripwire, TxState,
};

const SMALL: usize = 64;
/// The ring that benches run on: 256 KiB.
const LEVEL: u8 = 2;

struct Rings(Vec<Box<[UnsafeCell<u8>]>>);

// SAFETY: the protocol keeps the two sides' bytes apart.
unsafe impl Sync for Rings {}

impl Rings {
    fn new() -> Rings {
        let ring = |size: &u64| (0..*size).map(|_| UnsafeCell::new(0)).collect();
        Rings(LEVEL_SIZE[..=LEVEL as usize].iter().map(ring).collect())
    }

    fn at(&self, level: u8, at: usize, len: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.0[level as usize][at..at + len].as_ptr())
    }
}

impl Memory for Rings {
    fn fill<S: Source + ?Sized>(&self, level: u8, at: usize, len: usize, from: &mut S) -> usize {
        // SAFETY: `at` has checked that `len` bytes are there.
        unsafe { from.give(self.at(level, at, len), len) }
    }

    fn drain<S: Sink + ?Sized>(&self, level: u8, at: usize, len: usize, to: &mut S) {
        // SAFETY: `at` has checked that `len` bytes are there.
        unsafe { to.take(self.at(level, at, len), len) };
    }
}

/// What both ends of a direction share.
struct Direction {
    shared: Shared,
    memory: Rings,
}

struct Writer<'a>(&'a Direction, TxState);
struct Reader<'a>(&'a Direction, RxState);

impl Direction {
    fn new() -> Direction {
        Direction {
            shared: Shared::new(),
            memory: Rings::new(),
        }
    }

    /// Both ends, on the ring of [`LEVEL`].
    fn ends(&self) -> (Writer<'_>, Reader<'_>) {
        let mut writer = Writer(self, TxState::begin(0));
        let mut reader = Reader(self, RxState::begin(0));
        reader.receiver().wish(true);
        writer.sender().enter_ring().expect("granted");
        for _ in 0..LEVEL {
            writer.sender().grow(LEVEL).expect("a larger ring");
        }
        reader.receiver().look().expect("an honest peer");
        (writer, reader)
    }
}

impl Writer<'_> {
    fn sender(&mut self) -> Sender<'_, Rings> {
        Sender {
            shared: &self.0.shared,
            memory: &self.0.memory,
            state: &mut self.1,
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let n = self
                .sender()
                .push(len, &mut bytes, |slots| assert_eq!(slots, 0));
            if n.expect("an honest peer") == 0 {
                spin_loop();
            }
        }
    }
}

impl Reader<'_> {
    fn receiver(&mut self) -> Receiver<'_, Rings> {
        Receiver {
            shared: &self.0.shared,
            memory: &self.0.memory,
            state: &mut self.1,
            peek: false,
        }
    }

    /// Fills the buffer, spinning; `false`: told to stop.
    fn pull(&mut self, mut into: &mut [u8], stop: &AtomicBool) -> bool {
        while !into.is_empty() {
            let Ok(Look::Ring(n)) = self.receiver().look() else {
                unreachable!("an honest peer")
            };
            if n == 0 {
                if stop.load(Ordering::Relaxed) {
                    return false;
                }
                spin_loop();
                continue;
            }
            let n = n.min(into.len() as u64);
            self.receiver().pull(n, &mut into);
        }
        true
    }
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
        let direction = Direction::new();
        let (mut writer, mut reader) = direction.ends();
        let (bytes, mut back, go_on) = (vec![7; size], vec![0; size], AtomicBool::new(false));
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} B"), |b| {
            b.iter(|| {
                writer.push(black_box(&bytes));
                reader.pull(black_box(&mut back), &go_on)
            });
        });
    }
    group.finish();
}

/// Runs `f` on core 0 while `other` runs on core 1 until it is told to stop.
fn on_two_cores(
    other: impl FnOnce(&AtomicBool) + Send,
    f: impl FnOnce() -> Duration + Send,
) -> Duration {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            pin(1);
            other(&stop);
        });
        let timed = scope.spawn(|| {
            pin(0);
            f()
        });
        let time = timed.join().expect("the timed end");
        stop.store(true, Ordering::Relaxed);
        busy.join().expect("the other end");
        time
    })
}

fn round_trips(count: u64) -> Duration {
    let (there, back) = (Direction::new(), Direction::new());
    let ((mut ask, mut hear), (mut answer, mut get)) = (there.ends(), back.ends());
    let echo = move |stop: &AtomicBool| {
        let mut message = [0; SMALL];
        while hear.pull(&mut message, stop) {
            answer.push(&message);
        }
    };
    on_two_cores(echo, move || {
        let (mut message, go_on) = ([7; SMALL], AtomicBool::new(false));
        let begin = Instant::now();
        for _ in 0..count {
            ask.push(&message);
            get.pull(&mut message, &go_on);
        }
        begin.elapsed()
    })
}

fn messages(count: u64) -> Duration {
    let direction = Direction::new();
    let (mut writer, mut reader) = direction.ends();
    let send = move |_: &AtomicBool| (0..count).for_each(|_| writer.push(&[7; SMALL]));
    on_two_cores(send, move || {
        let (mut message, go_on) = ([0; SMALL], AtomicBool::new(false));
        let begin = Instant::now();
        for _ in 0..count {
            reader.pull(black_box(&mut message), &go_on);
        }
        begin.elapsed()
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
