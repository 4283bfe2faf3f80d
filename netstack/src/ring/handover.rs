//! Handing the kernel socket to a reader that knows no ring.
//!
//! The receiver has wished for the kernel and stopped reading. It is done when the kernel carries
//! every byte that is not read yet, in order, and nothing that was read already.

use super::Hostile;
use super::mark::{Carrier, LEVEL_SIZE, Mark};
use super::memory::Memory;
use super::receiver::Receiver;
use super::shared::MARKS;
use super::sync::{Ordering, compiler_fence};
use super::tail::Tail;

/// Where the bytes are that are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The kernel carries all of them, behind `skip` that were read before; from here on it is the
    /// receiver's only carrier.
    InKernel { skip: u64 },
    /// The kernel will, but has not got them yet.
    OnTheWay,
    /// The sender has not left the ring, which is empty.
    None,
    /// Some are in the ring alone.
    InRing,
}

/// The stretches that are not read yet, one mark after the other.
struct Walk {
    /// Up to here the kernel carries everything.
    pos: u64,
    carrier: Carrier,
    turn: u64,
    skip: u64,
}

impl Walk {
    /// `false`: what comes next in the stream is in the ring alone, or behind kernel bytes that are
    /// to be thrown away in the middle.
    fn step(&mut self, next: Mark, begin: u64) -> Result<bool, Hostile> {
        match (self.carrier, next.carrier) {
            (Carrier::Kernel, Carrier::Ring(_)) => {
                if next.start < self.pos {
                    return Err(Hostile);
                }
                self.pos = next.start;
            }
            (Carrier::Ring(_), Carrier::Kernel) => {
                let again = self.pos.saturating_sub(next.start);
                if again > LEVEL_SIZE.iter().sum() {
                    return Err(Hostile);
                }
                if next.start > self.pos || (again > 0 && self.pos != begin) {
                    return Ok(false);
                }
                self.skip += again;
            }
            (Carrier::Ring(_), Carrier::Ring(_)) | (Carrier::Kernel, Carrier::Kernel) => {}
        }
        self.turn += u64::from((self.turn & 1 == 1) != next.carrier.is_ring());
        self.carrier = next.carrier;
        Ok(true)
    }
}

impl<M: Memory> Receiver<'_, M> {
    /// Leaves the stream to a reader of the kernel socket, if the kernel's queue of `queued`
    /// bytes shows that everything is there; with `trusting`, as soon as the sender has promised it.
    pub fn onto_kernel(&mut self, queued: u64, trusting: bool) -> Result<Unread, Hostile> {
        let tail = Tail::read(&self.shared.producer.tail).offset();
        let epoch = self.shared.producer.epoch.load(Ordering::Acquire);
        let out = epoch.wrapping_sub(self.state.epoch);
        if out >= MARKS as u64 {
            return Err(Hostile);
        }
        let begin = self.state.pos;
        let mut walk = Walk {
            pos: begin,
            carrier: self.state.carrier(),
            turn: self.state.turn,
            skip: self.state.skip,
        };
        for number in self.state.epoch + 1..=epoch {
            let slot = &self.shared.switch.marks[number as usize % MARKS];
            let next = Mark::unpack(slot.load(Ordering::Relaxed)).ok_or(Hostile)?;
            if !walk.step(next, begin)? {
                return Ok(Unread::InRing);
            }
        }
        if walk.carrier.is_ring() {
            return Ok(if tail > walk.pos {
                Unread::InRing
            } else {
                Unread::None
            });
        }
        // What the last ring held is carried again; before it has come, its sender may still die.
        let again = if out > 0 {
            tail.saturating_sub(begin)
        } else {
            0
        };
        if !trusting && queued < walk.skip.saturating_add(again) {
            return Ok(Unread::OnTheWay);
        }
        self.leave_ring_behind(&walk, epoch);
        Ok(Unread::InKernel { skip: walk.skip })
    }

    fn leave_ring_behind(&mut self, walk: &Walk, epoch: u64) {
        self.state.skip = walk.skip;
        compiler_fence(Ordering::SeqCst);
        self.state.code = Carrier::Kernel.code();
        self.state.turn = walk.turn;
        compiler_fence(Ordering::SeqCst);
        self.state.epoch = epoch;
        self.shared.consumer.epoch.store(epoch, Ordering::Release);
        self.publish_wish();
    }
}
