//! A real port behind a bad network: what it receives goes through a simulated cable first. For tests;
//! it copies every frame.

use std::os::fd::BorrowedFd;
use std::vec::Vec;

use super::cable::{Cable, Conditions};
use super::{Capabilities, Frame, Port, PortCounters, Trouble};
use crate::time::Instant;
use crate::wire::Addresses;

/// Frames taken from the port in one go.
const BATCH: usize = 256;

#[derive(Debug)]
pub struct Impaired<P> {
    port: P,
    cable: Cable,
    /// The frame that was given out last.
    held: Vec<u8>,
}

impl<P: Port> Impaired<P> {
    pub fn new(port: P, conditions: Conditions, seed: u64) -> Impaired<P> {
        Impaired {
            port,
            cable: Cable::new(conditions, seed),
            held: Vec::new(),
        }
    }

    /// From now on.
    pub fn change(&mut self, conditions: Conditions) {
        self.cable.change(conditions);
    }

    /// Frames that did not get through.
    pub fn lost(&self) -> u64 {
        self.cable.lost()
    }
}

impl<P: Port> Port for Impaired<P> {
    /// What arrives has been through a bad cable since it was checked.
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.port.capabilities();
        capabilities.offload.udp_received = false;
        capabilities
    }

    fn meet(&mut self, ends: &Addresses) -> Result<(), Trouble> {
        self.port.meet(ends)
    }

    fn receive(&mut self, now: Instant) -> Option<Frame<'_>> {
        for _ in 0..BATCH {
            match self.port.receive(now) {
                Some(frame) => self.cable.send(now, frame.bytes),
                None => break,
            }
        }
        let used = core::mem::take(&mut self.held);
        match self.cable.take(now, used) {
            Ok(frame) => {
                self.held = frame;
                Some(Frame {
                    bytes: &self.held,
                    checked: false,
                })
            }
            Err(used) => {
                self.held = used;
                None
            }
        }
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.port.slot()
    }

    fn commit(&mut self, length: usize) {
        self.port.commit(length);
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.port.flush(now)
    }

    fn deadline(&self) -> Option<Instant> {
        self.port
            .deadline()
            .into_iter()
            .chain(self.cable.next())
            .min()
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.port.wake()
    }

    fn lie_down(&mut self) -> bool {
        self.port.lie_down()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.port.trouble()
    }

    fn counters(&mut self) -> PortCounters {
        self.port.counters()
    }
}
