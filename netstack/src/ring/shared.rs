//! What both ends of a connection map, for one direction: five cache lines.
//!
//! Each line has one writer in the usual case, and lines that are read at every call are written
//! rarely: the sender looks at `wait` after each publish, so it must not share a line with `head`,
//! which moves at every read. All zero is the valid beginning: everything on the kernel.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};
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
