//! What both ends of a connection map, for one direction: five cache lines.
//!
//! Each line has one writer in the usual case, and lines that are read at every call are written
//! rarely: the sender looks at `wait` after each publish, so it must not share a line with `head`,
//! which moves at every read. All zero is the valid beginning: everything on the kernel.

use super::mark::Mark;
use super::sync::{AtomicU32, AtomicU64, Ordering, fence};
use super::tail::Tail;
use super::tripwire::{Slots, Tripwire};

/// Marks that may be under way, unconsumed: enter a ring, grow through all levels, leave again.
pub const MARKS: usize = 8;

/// Written by the sender.
#[repr(C, align(64))]
pub struct ProducerLine {
    /// Stream offset behind the last byte in the ring.
    pub tail: AtomicU64,
    /// Number of marks published.
    pub epoch: AtomicU64,
    /// A hint that the sender has closed: look at the kernel socket now.
    pub closed: AtomicU32,
    /// The CPU that the sender was last seen on, plus one: a receiver on the same CPU must not spin.
    pub cpu: AtomicU32,
}

/// Written by the receiver.
#[repr(C, align(64))]
pub struct ConsumerLine {
    /// Stream offset of the next byte to read.
    pub head: AtomicU64,
    /// Number of marks consumed.
    pub epoch: AtomicU64,
}

/// Written by the receiver when it waits or wishes for another carrier.
#[repr(C, align(64))]
pub struct WaitLine {
    pub data: Tripwire,
    /// The turn that the receiver wishes the sender to reach; even is the kernel, odd a ring.
    pub wish: AtomicU64,
}

/// Written by the sender when it waits for space.
#[repr(C, align(64))]
pub struct SpaceLine {
    pub space: Tripwire,
}

/// Written by the sender at a switch.
#[repr(C, align(64))]
pub struct MarkLine {
    pub marks: [AtomicU64; MARKS],
}

#[repr(C)]
pub struct Shared {
    pub producer: ProducerLine,
    pub consumer: ConsumerLine,
    pub wait: WaitLine,
    pub room: SpaceLine,
    pub switch: MarkLine,
}

#[cfg(not(loom))]
mod lies_in_shared_memory {
    use super::*;
    use crate::in_shared_memory;

    in_shared_memory!(ProducerLine {
        tail,
        epoch,
        closed,
        cpu
    });
    in_shared_memory!(ConsumerLine { head, epoch });
    in_shared_memory!(WaitLine { data, wish });
    in_shared_memory!(SpaceLine { space });
    in_shared_memory!(MarkLine { marks });
    in_shared_memory!(Shared {
        producer,
        consumer,
        wait,
        room,
        switch
    });
}

impl Shared {
    pub fn new() -> Shared {
        let zero = || AtomicU64::new(0);
        Shared {
            producer: ProducerLine {
                tail: zero(),
                epoch: zero(),
                closed: AtomicU32::new(0),
                cpu: AtomicU32::new(0),
            },
            consumer: ConsumerLine {
                head: zero(),
                epoch: zero(),
            },
            wait: WaitLine {
                data: Tripwire::new(),
                wish: zero(),
            },
            room: SpaceLine {
                space: Tripwire::new(),
            },
            switch: MarkLine {
                marks: core::array::from_fn(|_| zero()),
            },
        }
    }

    /// For who neither sends nor receives here: how many bytes the ring holds behind `read`, and behind what was read since.
    pub fn unread_in_ring(&self, read: u64) -> u64 {
        let head = self.consumer.head.load(Ordering::Acquire).max(read);
        Tail::read(&self.producer.tail)
            .offset()
            .saturating_sub(head)
    }

    /// For the same: nothing comes into the ring any more, until the receiver wishes for it.
    pub fn sender_is_on_kernel(&self) -> bool {
        let epoch = self.producer.epoch.load(Ordering::Acquire);
        let mark = self.switch.marks[epoch as usize % MARKS].load(Ordering::Relaxed);
        Mark::unpack(mark).is_none_or(|mark| !mark.carrier.is_ring())
    }

    /// The sender, after its last byte: sets the hint, and returns the slots to ring now. A receiver that arms too late
    /// for that sees the hint.
    pub fn hint_end(&self) -> Slots {
        self.producer.closed.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        self.wait.data.trip_all()
    }
}

impl Default for Shared {
    fn default() -> Self {
        Shared::new()
    }
}

#[cfg(not(loom))]
const _: () = assert!(core::mem::size_of::<Shared>() == 5 * 64);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::mark::Carrier;
    use super::*;

    #[test]
    fn who_looks_on_sees_what_is_unread() {
        let shared = Shared::new();
        assert!(shared.sender_is_on_kernel());
        let mark = |carrier, epoch: u64| {
            let word = Mark {
                start: 100,
                carrier,
            }
            .pack();
            shared.switch.marks[epoch as usize % MARKS].store(word, Ordering::Relaxed);
            shared.producer.epoch.store(epoch, Ordering::Release);
        };
        mark(Carrier::Ring(0), 1);
        shared.producer.tail.store(104, Ordering::Release);
        assert!(!shared.sender_is_on_kernel());
        // The reader has not said yet where it is.
        assert_eq!(shared.unread_in_ring(101), 3);
        shared.consumer.head.store(103, Ordering::Release);
        assert_eq!(shared.unread_in_ring(101), 1);
        mark(Carrier::Kernel, 2);
        shared.consumer.head.store(110, Ordering::Release);
        assert!(shared.sender_is_on_kernel());
        assert_eq!(shared.unread_in_ring(101), 0);
    }
}
