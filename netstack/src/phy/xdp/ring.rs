//! The four rings that a socket shares with the kernel: cursors of 32 bits that only grow, and wrap.
//! One side produces, the other consumes; each reads the other's cursor only when it must.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

use crate::phy::sys::{Map, Plain};

/// A ring in its mapping.
#[derive(Debug)]
struct MappedRing<T> {
    map: Map,
    offsets: XdpRingOffset,
    size: u32,
    entries: PhantomData<T>,
}

/// Bytes of a mapping for a ring of `size` entries.
pub fn bytes<T: Plain>(offsets: &XdpRingOffset, size: u32) -> usize {
    offsets.desc as usize + size as usize * size_of::<T>()
}

impl<T: Plain> MappedRing<T> {
    fn new(map: Map, offsets: XdpRingOffset, size: u32) -> MappedRing<T> {
        assert!(size.is_power_of_two());
        MappedRing {
            map,
            offsets,
            size,
            entries: PhantomData,
        }
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        self.map.get(offset as usize)
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    fn entry(&self, cursor: u32) -> *mut T {
        let place = (cursor & (self.size - 1)) as usize;
        let offset = self.offsets.desc as usize + place * size_of::<T>();
        self.map.at(offset, size_of::<T>()).cast()
    }

    fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.offsets.flags else {
            return true;
        };
        let flags = self.word(flags).load(Ordering::Relaxed);
        flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// Our end of a ring that the kernel consumes.
#[derive(Debug)]
pub struct Producer<T> {
    shared: MappedRing<T>,
    /// Ahead of what is published.
    produced: u32,
    /// The kernel's cursor, as we saw it last.
    consumed: u32,
}

impl<T: Plain> Producer<T> {
    pub fn new(map: Map, offsets: XdpRingOffset, size: u32) -> Producer<T> {
        let shared = MappedRing::new(map, offsets, size);
        let produced = shared.producer().load(Ordering::Relaxed);
        let consumed = shared.consumer().load(Ordering::Acquire);
        Producer {
            shared,
            produced,
            consumed,
        }
    }

    /// Whether so many more fit.
    pub fn has_room(&mut self, count: u32) -> bool {
        let fits = |consumed: u32| {
            let used = self.produced.wrapping_sub(consumed);
            count <= self.shared.size && used <= self.shared.size - count
        };
        if fits(self.consumed) {
            return true;
        }
        let consumed = self.shared.consumer().load(Ordering::Acquire);
        let fits = fits(consumed);
        self.consumed = consumed;
        fits
    }

    /// Adds one, which the kernel does not see yet. `false` if there is no room.
    #[must_use]
    pub fn push(&mut self, value: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        // SAFETY: inside the ring and aligned by the kernel; the entry is not published, so it is ours.
        unsafe { self.shared.entry(self.produced).write(value) };
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// The kernel sees all that was added.
    pub fn publish(&mut self) {
        let produced = self.produced;
        self.shared.producer().store(produced, Ordering::Release);
    }

    /// How many the kernel has not taken.
    pub fn pending(&self) -> u32 {
        let consumed = self.shared.consumer().load(Ordering::Acquire);
        self.produced.wrapping_sub(consumed)
    }

    /// The kernel does not look at the ring by itself.
    pub fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// Our end of a ring that the kernel fills.
#[derive(Debug)]
pub struct Consumer<T> {
    shared: MappedRing<T>,
    /// Ahead of what the kernel knows.
    consumed: u32,
    /// The kernel's cursor, as we saw it last.
    produced: u32,
}

impl<T: Plain> Consumer<T> {
    pub fn new(map: Map, offsets: XdpRingOffset, size: u32) -> Consumer<T> {
        let shared = MappedRing::new(map, offsets, size);
        let consumed = shared.consumer().load(Ordering::Relaxed);
        Consumer {
            shared,
            consumed,
            produced: consumed,
        }
    }

    /// Whether there is a next one.
    #[inline]
    pub fn has_some(&mut self) -> bool {
        if self.consumed == self.produced {
            self.produced = self.shared.producer().load(Ordering::Acquire);
        }
        self.consumed != self.produced
    }

    /// The next one. The kernel does not know yet that it is taken.
    pub fn pop(&mut self) -> Option<T> {
        if !self.has_some() {
            return None;
        }
        // SAFETY: inside the ring and aligned by the kernel; published and not given back, so nobody
        // writes to it; and any bits are a `T`.
        let value = unsafe { self.shared.entry(self.consumed).read() };
        self.consumed = self.consumed.wrapping_add(1);
        Some(value)
    }

    /// The entries that were taken are the kernel's again.
    pub fn give_back(&mut self) {
        let consumed = self.consumed;
        self.shared.consumer().store(consumed, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::OwnedFd;
    use std::vec::Vec;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const OFFSETS: XdpRingOffset = XdpRingOffset {
        producer: 0,
        consumer: 64,
        desc: 128,
        flags: Some(192 - 64 - 8),
    };

    /// Both ends of one ring, with cursors that begin at `start`.
    fn ends(size: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
        let fd: OwnedFd = memfd_create("ring", MemfdFlags::CLOEXEC).expect("a file");
        let len = bytes::<u64>(&OFFSETS, size);
        ftruncate(&fd, len as u64).expect("room");
        let map = || Map::of(&fd, 0, len).expect("a mapping");
        let shared = MappedRing::<u64>::new(map(), OFFSETS, size);
        shared.producer().store(start, Ordering::Relaxed);
        shared.consumer().store(start, Ordering::Relaxed);
        let producer = Producer::new(map(), OFFSETS, size);
        (producer, Consumer::new(map(), OFFSETS, size))
    }

    #[derive(Clone, Copy, Debug)]
    enum RingStep {
        Push,
        Publish,
        Pop,
        GiveBack,
    }

    fn steps() -> impl Strategy<Value = Vec<RingStep>> {
        let step = prop_oneof![
            4 => Just(RingStep::Push),
            1 => Just(RingStep::Publish),
            4 => Just(RingStep::Pop),
            1 => Just(RingStep::GiveBack),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn is_a_queue(bits in 0u32..5, start in prop_oneof![Just(0), Just(u32::MAX - 20)], steps in steps()) {
            let size = 1 << bits;
            let (mut producer, mut consumer) = ends(size, start);
            // Added but not published; published but not taken; taken but not given back.
            let (mut added, mut waiting, mut taken) = (VecDeque::new(), VecDeque::new(), 0);
            for (step, value) in steps.into_iter().zip(0..) {
                let used = added.len() + waiting.len() + taken;
                match step {
                    RingStep::Push => {
                        let fits = used < size as usize;
                        prop_assert_eq!(producer.has_room(1), fits);
                        prop_assert_eq!(producer.push(value), fits);
                        if fits {
                            added.push_back(value);
                        }
                    }
                    RingStep::Publish => {
                        producer.publish();
                        waiting.append(&mut added);
                        prop_assert_eq!(producer.pending() as usize, waiting.len() + taken);
                    }
                    RingStep::Pop => {
                        let popped = consumer.pop();
                        prop_assert_eq!(popped, waiting.pop_front());
                        taken += usize::from(popped.is_some());
                    }
                    RingStep::GiveBack => {
                        consumer.give_back();
                        taken = 0;
                    }
                }
            }
        }
    }
}
