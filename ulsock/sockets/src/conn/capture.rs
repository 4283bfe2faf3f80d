//! Copies of what goes into a ring, while somebody captures: see [`crate::state::capture`].

use std::sync::atomic::Ordering;

use netstack::ring::{Carrier, Memory, Sender};

use super::Conn;
use super::in_place::around_edge;
use crate::state::capture::{self, Copier, Sent};
use crate::state::process_group;
use rendezvous::rings::Rings;

/// Bytes that are about to go into a ring, and will be copied.
pub(super) struct ToCopy {
    time: u64,
    level: u8,
    start: u64,
}

impl Conn<'_> {
    /// Before bytes are sent on a connection that is marked. The time is taken now: an answer to them is later.
    #[cold]
    pub(super) fn before_copy(&self, tx: &Sender<'_, Rings>) -> Option<ToCopy> {
        let Carrier::Ring(level) = tx.state.carrier() else {
            return None;
        };
        let time = capture::time_of_copy(process_group::own()?, self.record)?;
        Some(ToCopy {
            time,
            level,
            start: tx.state.written,
        })
    }

    /// After so many of them were: they are still in the ring, for nobody writes there but who holds the lock.
    #[cold]
    pub(super) fn copy(&self, to_copy: &ToCopy, n: u64, size: u64) {
        let Some(family) = process_group::own() else {
            return;
        };
        let sent = Sent {
            time: to_copy.time,
            number: self.handle.number,
            record: self.record,
            by_link: self.is_nic(),
            // What this end itself has said last.
            read: self.link.rx_shared().consumer.head.load(Ordering::Relaxed),
        };
        let mut copier = Copier::new(family, sent, to_copy.start);
        for (at, piece) in around_edge(to_copy.start, n as usize, size) {
            if piece > 0 {
                self.link.tx.drain(to_copy.level, at, piece, &mut copier);
            }
        }
    }
}

#[cfg(test)]
mod tests;
