//! A port that is not there: two of them, joined by two simulated cables, in one process.
//!
//! Time is what the callers say it is. The two ends may live in two threads.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

use super::cable::{Cable, Conditions};
use super::{Capabilities, Frame, Port, PortCounters, Trouble};
use crate::time::Instant;
use crate::wire::frame::{ETHERNET, Offload};

/// Frames that wait for the cable.
const SLOTS: usize = 64;

type SharedCable = Arc<Mutex<Cable>>;

#[derive(Debug)]
pub struct Sim {
    capabilities: Capabilities,
    outgoing: SharedCable,
    incoming: SharedCable,
    /// The ring of frames to send: from `head` on `count`, each with its length.
    slots: Vec<(usize, Vec<u8>)>,
    head: usize,
    count: usize,
    /// When the outgoing cable is free for the next of them.
    busy_until: Instant,
    /// The frame that was given out last.
    held: Vec<u8>,
    counters: PortCounters,
}

impl Sim {
    /// Both ends of a pair of cables, with frames for this MTU.
    pub fn pair(conditions: &Conditions, mtu: usize, seed: u64) -> (Sim, Sim) {
        let cable = |seed| Arc::new(Mutex::new(Cable::new(conditions.clone(), seed)));
        let (there, back) = (cable(seed), cable(!seed));
        let one = Sim::new(1, mtu, there.clone(), back.clone());
        let other = Sim::new(2, mtu, back, there);
        (one, other)
    }

    fn new(number: u8, mtu: usize, outgoing: SharedCable, incoming: SharedCable) -> Sim {
        let capabilities = Capabilities {
            mtu,
            // Administered locally (IEEE 802, 8.2.2).
            address: [2, 0, 0, 0, 0, number],
            offload: Offload::default(),
        };
        Sim {
            capabilities,
            outgoing,
            incoming,
            slots: vec![(0, vec![0; ETHERNET + mtu]); SLOTS],
            head: 0,
            count: 0,
            busy_until: Instant::ZERO,
            held: Vec::new(),
            counters: PortCounters::default(),
        }
    }

    /// For frames that leave from now on.
    pub fn change(&self, conditions: Conditions) {
        lock(&self.outgoing).change(conditions);
    }
}

/// A thread that panicked with the lock has left a cable like any other.
fn lock(cable: &SharedCable) -> MutexGuard<'_, Cable> {
    cable.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port for Sim {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Instant) -> Option<Frame<'_>> {
        let used = core::mem::take(&mut self.held);
        let taken = lock(&self.incoming).take(now, used);
        let arrived = taken.is_ok();
        self.held = taken.unwrap_or_else(|used| used);
        if !arrived {
            return None;
        }
        self.counters.frames_received += 1;
        self.counters.bytes_received += self.held.len() as u64;
        Some(Frame {
            bytes: &self.held,
            checked: false,
        })
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.count == SLOTS {
            return None;
        }
        let (_, bytes) = &mut self.slots[(self.head + self.count) % SLOTS];
        Some(bytes)
    }

    fn commit(&mut self, length: usize) {
        if !(ETHERNET..=self.capabilities.frame()).contains(&length) || self.count == SLOTS {
            self.counters.refused += 1;
            return;
        }
        self.slots[(self.head + self.count) % SLOTS].0 = length;
        self.count += 1;
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        let mut cable = lock(&self.outgoing);
        while self.count > 0 && cable.free_at() <= now {
            let (length, bytes) = &self.slots[self.head];
            cable.send(now, &bytes[..*length]);
            self.counters.frames_sent += 1;
            self.counters.bytes_sent += *length as u64;
            self.head = (self.head + 1) % SLOTS;
            self.count -= 1;
        }
        self.busy_until = cable.free_at();
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let leaves = (self.count > 0).then_some(self.busy_until);
        let arrives = lock(&self.incoming).next();
        leaves.into_iter().chain(arrives).min()
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&mut self) -> PortCounters {
        self.counters
    }
}
