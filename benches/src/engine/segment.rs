//! A segment of one connection on the heap, and the program that uses it.

use std::cell::UnsafeCell;
use std::sync::Arc;

use firmware::{Half, Segment};
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Memory, Receiver, RxState, Sender, Shared, Sink, Slots, Source, TxState};

/// The level that the nic's rings have: 64 KiB.
const LEVEL: u8 = 1;
const SIZE: usize = LEVEL_SIZE[LEVEL as usize] as usize;

/// One ring.
pub struct Ring(Box<[UnsafeCell<u8>]>);

// SAFETY: the protocol keeps apart what its two ends read and write.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Ring {
        Ring((0..SIZE).map(|_| UnsafeCell::new(0)).collect())
    }

    fn at(&self, at: usize, length: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.0[at..at + length].as_ptr())
    }
}

impl Memory for Ring {
    fn fill<S: Source + ?Sized>(&self, _: u8, at: usize, length: usize, from: &mut S) -> usize {
        // SAFETY: `at` has checked that so many bytes are there.
        unsafe { from.give(self.at(at, length), length) }
    }

    fn drain<S: Sink + ?Sized>(&self, _: u8, at: usize, length: usize, to: &mut S) {
        // SAFETY: `at` has checked that so many bytes are there.
        unsafe { to.take(self.at(at, length), length) };
    }
}

struct Direction {
    shared: Shared,
    ring: Ring,
}

impl Direction {
    fn new() -> Direction {
        Direction {
            shared: Shared::default(),
            ring: Ring::new(),
        }
    }

    fn half(&self) -> Half<'_, Ring> {
        Half {
            shared: &self.shared,
            memory: &self.ring,
        }
    }
}

/// Held by the engine and by the program.
#[derive(Clone)]
pub struct Heap(Arc<[Direction; 2]>);

impl Heap {
    pub fn new() -> Heap {
        let segment = Heap(Arc::new([Direction::new(), Direction::new()]));
        firmware::lay_out(&segment, 0, 0);
        segment
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Segment for Heap {
    type Memory = Ring;

    fn level(&self) -> u8 {
        LEVEL
    }

    fn sending(&self) -> Half<'_, Ring> {
        self.0[0].half()
    }

    fn receiving(&self) -> Half<'_, Ring> {
        self.0[1].half()
    }
}

/// The program's end of a segment.
pub struct Program {
    segment: Heap,
    tx: TxState,
    rx: RxState,
}

impl Program {
    pub fn new(segment: Heap) -> Program {
        Program {
            segment,
            tx: TxState::begin_on_ring(0, LEVEL),
            rx: RxState::begin_on_ring(0, LEVEL),
        }
    }

    /// Puts all of it into the ring, or nothing if there is no room; returns the slots to ring.
    #[inline]
    pub fn write(&mut self, mut bytes: &[u8]) -> Option<Slots> {
        let Direction { shared, ring } = &self.segment.0[0];
        let (state, length) = (&mut self.tx, bytes.len() as u64);
        let mut sender = Sender {
            shared,
            memory: ring,
            state,
        };
        if let Some(slots) = sender.put(length, &mut bytes, true) {
            return Some(slots);
        }
        if sender.free(length).ok()? < length {
            return None;
        }
        let mut rung = 0;
        let pushed = sender.push(length, &mut bytes, |slots| rung |= slots);
        (pushed == Ok(length)).then_some(rung)
    }

    /// What there is, at most as much as fits, and the slots to ring.
    #[inline]
    pub fn read(&mut self, mut into: &mut [u8]) -> (usize, Slots) {
        let Direction { shared, ring } = &self.segment.0[1];
        let most = into.len() as u64;
        let mut receiver = Receiver {
            shared,
            memory: ring,
            state: &mut self.rx,
            peek: false,
        };
        let taken = receiver.take(most, &mut into);
        taken.map_or((0, 0), |(n, slots)| (n as usize, slots))
    }
}
