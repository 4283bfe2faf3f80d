//! A peer that writes whatever it likes into every word it shares with us: the honest side answers
//! `Hostile` or carries on, but it never panics, never leaves the ring's memory (the memory here
//! asserts that) and never loops for ever.
#![cfg(not(loom))]

#[path = "hostile/fuzz.rs"]
mod fuzz;
mod support;

use netstack::ring::mark::{LEVEL_SIZE, MAX_OFFSET};
use netstack::ring::shared::MARKS;
use netstack::ring::tripwire::{ALL, SLOTS};
use netstack::ring::{Carrier, Hostile, Look, Mark, Receiver, RxState, Sender, Shared, TxState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use support::{Heap, stream};

const BEGIN: u64 = 1_000;

/// An honest pair on a ring, until somebody writes into `shared`.
struct Pair {
    shared: Shared,
    memory: Heap,
    tx: TxState,
    rx: RxState,
}

impl Pair {
    fn on_ring(begin: u64) -> Pair {
        let mut pair = Pair {
            shared: Shared::new(),
            memory: Heap::new(),
            tx: TxState::begin(begin),
            rx: RxState::begin(begin),
        };
        pair.receiver().publish_start();
        pair.receiver().wish(true);
        assert!(pair.sender().enter_ring().is_some());
        assert_eq!(pair.receiver().look(), Ok(Look::Ring(0)));
        pair
    }

    fn sender(&mut self) -> Sender<'_, Heap> {
        Sender {
            shared: &self.shared,
            memory: &self.memory,
            state: &mut self.tx,
        }
    }

    fn receiver(&mut self) -> Receiver<'_, Heap> {
        Receiver {
            shared: &self.shared,
            memory: &self.memory,
            state: &mut self.rx,
            peek: false,
        }
    }

    fn push(&mut self, n: u64) -> Result<u64, Hostile> {
        let bytes = stream(self.tx.written, n);
        if let Some(slots) = self.sender().put(n, &mut &bytes[..], false) {
            assert_eq!(slots & !ALL, 0);
            return Ok(n);
        }
        self.sender().push(n, &mut &bytes[..], |slots| {
            assert_eq!(slots & !ALL, 0);
        })
    }

    /// Looks, and does what the answer allows.
    fn receive(&mut self, queued: u64) -> Result<Look, Hostile> {
        let mut room = [0; 4096];
        let at_once = self.receiver().take(room.len() as u64, &mut &mut room[..]);
        if let Some((n, slots)) = at_once {
            assert_eq!(slots & !ALL, 0);
            return Ok(Look::Ring(n));
        }
        let look = self.receiver().look()?;
        match look {
            Look::Ring(n) => {
                assert!(n <= *LEVEL_SIZE.last().unwrap());
                let mut buffer = vec![0; n as usize];
                let slots = self.receiver().pull(n, &mut &mut buffer[..]);
                assert_eq!(slots & !ALL, 0);
            }
            Look::Kernel { skip, limit } => {
                let thrown = skip.min(queued);
                self.receiver().skipped(thrown);
                self.receiver().consumed(limit.min(queued - thrown));
            }
        }
        Ok(look)
    }

    /// The peer publishes a mark as the next one.
    fn mark(&self, word: u64) {
        let epoch = self.shared.producer.epoch.load(Ordering::Relaxed) + 1;
        self.shared.switch.marks[epoch as usize % MARKS].store(word, Ordering::Relaxed);
        self.shared.producer.epoch.store(epoch, Ordering::Relaxed);
    }

    fn mark_at(&self, start: u64, carrier: Carrier) {
        self.mark(Mark { start, carrier }.pack());
    }

    fn tail(&self) -> &AtomicU64 {
        &self.shared.producer.tail
    }

    fn head(&self) -> &AtomicU64 {
        &self.shared.consumer.head
    }

    fn look_after(&mut self, f: impl FnOnce(&Pair)) -> Result<Look, Hostile> {
        f(self);
        self.receiver().look()
    }

    /// Any 32 bits of what is shared.
    fn word(&self, index: usize) -> Option<&AtomicU32> {
        const WORDS: usize = size_of::<Shared>() / 4;
        // The tripwires' reserved words: the only ones that are not atomics, and never read.
        const RESERVED: [usize; 2] = [128 / 4 + 1, 192 / 4 + 1];
        if RESERVED.contains(&(index % WORDS)) {
            return None;
        }
        let base = (&raw const self.shared).cast::<AtomicU32>();
        // SAFETY: inside `shared`, aligned, and part of an atomic or of padding.
        Some(unsafe { &*base.add(index % WORDS) })
    }
}

#[test]
fn tails_that_no_sender_writes() {
    let size = LEVEL_SIZE[0];
    for tail in [0, BEGIN - 1, BEGIN + size + 1, MAX_OFFSET, u64::MAX] {
        let look = Pair::on_ring(BEGIN).look_after(|p| p.tail().store(tail, Ordering::Relaxed));
        assert_eq!(look, Err(Hostile), "tail {tail}");
    }
}

#[test]
fn a_tail_that_goes_back() {
    let mut pair = Pair::on_ring(BEGIN);
    pair.push(10).unwrap();
    assert_eq!(pair.receiver().look(), Ok(Look::Ring(10)));
    let look = pair.look_after(|p| p.tail().store(BEGIN + 9, Ordering::Relaxed));
    assert_eq!(look, Err(Hostile));
}

#[test]
fn epochs_that_jump() {
    for jump in [MARKS as u64, 1 << 32, u64::MAX - 1, u64::MAX] {
        let look = Pair::on_ring(BEGIN).look_after(|p| {
            p.shared.producer.epoch.fetch_add(jump, Ordering::Relaxed);
        });
        assert_eq!(look, Err(Hostile), "jump {jump}");
    }
}

#[test]
fn marks_that_no_sender_writes() {
    let words = [6, 7, u64::MAX, MAX_OFFSET << 3 | 1];
    for word in words {
        let look = Pair::on_ring(BEGIN).look_after(|p| p.mark(word));
        assert_eq!(look, Err(Hostile), "word {word:x}");
    }
}

#[test]
fn marks_at_places_that_no_sender_chooses() {
    let size = LEVEL_SIZE[0];
    let behind = [0, BEGIN - 1].map(|start| (start, Carrier::Ring(1)));
    let ahead = [BEGIN + size + 1, MAX_OFFSET - 1].map(|start| (start, Carrier::Ring(1)));
    let beyond_the_tail = [BEGIN + 1, MAX_OFFSET - 1].map(|start| (start, Carrier::Kernel));
    for (start, carrier) in [behind, ahead, beyond_the_tail].concat() {
        let look = Pair::on_ring(BEGIN).look_after(|p| p.mark_at(start, carrier));
        assert_eq!(look, Err(Hostile), "{carrier:?} at {start}");
    }
}

#[test]
fn a_kernel_stretch_that_repeats_more_than_the_rings_hold() {
    let begin = 1 << 40;
    let mut pair = Pair::on_ring(begin);
    let all = LEVEL_SIZE.iter().sum::<u64>();
    assert_eq!(
        pair.look_after(|p| p.mark_at(begin - all - 1, Carrier::Kernel)),
        Err(Hostile)
    );
}

#[test]
fn heads_that_no_receiver_writes() {
    for head in [0, BEGIN - 1, BEGIN + 11, MAX_OFFSET, u64::MAX] {
        let mut pair = Pair::on_ring(BEGIN);
        pair.push(10).unwrap();
        pair.sender().consumer_moved().unwrap();
        pair.head().store(head, Ordering::Relaxed);
        assert_eq!(pair.sender().free(u64::MAX), Err(Hostile), "head {head}");
        assert_eq!(pair.sender().consumer_moved(), Err(Hostile));
        assert_eq!(pair.sender().consumer_moved(), Err(Hostile));
        assert_eq!(pair.sender().yield_ring(), Err(Hostile));
        assert_eq!(pair.push(u64::from(u16::MAX)), Err(Hostile));
    }
}

#[test]
fn wishes_at_the_end_of_numbers() {
    for wish in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let mut pair = Pair::on_ring(BEGIN);
        for _ in 0..4 {
            pair.shared.wait.wish.store(wish, Ordering::Relaxed);
            if pair.sender().wishes_change() && pair.tx.on_ring() {
                pair.sender().yield_ring().unwrap();
            }
            pair.sender().enter_ring();
            pair.receive(0).unwrap();
        }
    }
}

#[test]
fn garbage_in_the_tripwires() {
    let mut pair = Pair::on_ring(BEGIN);
    for line in [128 / 4, 192 / 4] {
        for word in (0..4 + SLOTS).filter(|word| *word != 1) {
            pair.word(line + word)
                .unwrap()
                .store(u32::MAX, Ordering::Relaxed);
        }
    }
    // The position lies beyond every tail; a switch rings whatever hangs there.
    assert_eq!(pair.push(1), Ok(1));
    assert_eq!(pair.sender().leave_ring(), ALL);
    assert_eq!(pair.shared.wait.data.name(usize::MAX), u32::MAX);
    assert_eq!(pair.receiver().wish(false), ALL);
}

#[test]
fn a_dead_holder_does_not_make_the_peer_trusted() {
    for (tail, epoch) in [(u64::MAX, 0), (0, 0), (BEGIN, u64::MAX), (BEGIN, 7)] {
        let mut pair = Pair::on_ring(BEGIN);
        pair.tail().store(tail, Ordering::Relaxed);
        let shared = &pair.shared.producer.epoch;
        shared.fetch_add(epoch, Ordering::Relaxed);
        assert!(!pair.sender().recover());
        assert_eq!(pair.tx.written, BEGIN);
    }
    for (start, carrier) in [
        (BEGIN - 1, Carrier::Kernel),
        (BEGIN + 1, Carrier::Kernel),
        (BEGIN + 1, Carrier::Ring(1)),
        (BEGIN, Carrier::Ring(2)),
    ] {
        let mut pair = Pair::on_ring(BEGIN);
        pair.mark_at(start, carrier);
        assert!(!pair.sender().recover(), "{carrier:?} at {start}");
    }
}

/// A peer that publishes a new mark whenever the last one was consumed cannot keep us in one call.
#[test]
fn a_peer_that_never_stops_switching() {
    let mut pair = Pair::on_ring(BEGIN);
    let (stop, shared) = (AtomicBool::new(false), Shared::new());
    pair.shared = shared;
    pair.rx = RxState::begin(BEGIN);
    let shared = &pair.shared;
    let (memory, state) = (&pair.memory, &mut pair.rx);
    std::thread::scope(|scope| {
        scope.spawn(|| switch_for_ever(shared, &stop));
        for _ in 0..200_000 {
            let mut receiver = Receiver {
                shared,
                memory,
                state,
                peek: false,
            };
            let before = shared.consumer.epoch.load(Ordering::Relaxed);
            let _look_or_hostile = receiver.look();
            let after = shared.consumer.epoch.load(Ordering::Relaxed);
            assert!(after - before <= MARKS as u64);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn switch_for_ever(shared: &Shared, stop: &AtomicBool) {
    shared.producer.tail.store(BEGIN, Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        let next = shared.consumer.epoch.load(Ordering::Acquire) + 1;
        let carrier = match next % 2 {
            0 => Carrier::Kernel,
            _ => Carrier::Ring(0),
        };
        let mark = Mark {
            start: BEGIN,
            carrier,
        };
        shared.switch.marks[next as usize % MARKS].store(mark.pack(), Ordering::Relaxed);
        shared.producer.epoch.store(next, Ordering::Release);
    }
}
