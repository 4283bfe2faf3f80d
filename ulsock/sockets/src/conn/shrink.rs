//! A ring that a burst has made large becomes small again when it is not used any more.

use netstack::ring::{Hostile, Sender};

use super::lock::SideGuard;
use super::{Conn, Handle};
use crate::conn::reclaim;
use crate::state::record::flag;
use rendezvous::rings::Rings;

/// What a look at a connection has left to be looked after.
pub enum LeftToShrink {
    Nothing {
        given_back: bool,
    },
    /// So much is sent that the ring keeps its size.
    InUse,
    /// Not needed any more, but not read either; or somebody is at it.
    Unread,
}

/// Gives back what the larger rings of a connection's sending direction hold, unless they are in use.
pub fn after_use(number: u32) -> LeftToShrink {
    let handle = crate::state::process_group::own()
        .zip(crate::state::process_group::fd_of(number))
        .map(|(family, fd)| Handle::new(family, number, fd));
    match handle.and_then(Conn::enter) {
        Some(conn) if conn.link.pair.is_mine() => conn.shrink_after_use(),
        _ => LeftToShrink::Nothing { given_back: false },
    }
}

impl Conn<'_> {
    fn shrink_after_use(&self) -> LeftToShrink {
        let Some(mut held) = SideGuard::try_take(&self.record.tx, self.me, false) else {
            return LeftToShrink::Unread;
        };
        let mut tx = self.sender(held.state());
        if tx.level() > 0 && self.link.usage.is_busy(tx.state.written, tx.size()) {
            return LeftToShrink::InUse;
        }
        match self.shrink(&mut tx) {
            Ok(true) => LeftToShrink::Nothing { given_back: true },
            Ok(false) => LeftToShrink::Unread,
            // The next call finds it too, and tells.
            Err(Hostile) => LeftToShrink::Nothing { given_back: false },
        }
    }

    /// To the smallest ring, and the memory of the others goes, if nothing is left in them; `false`
    /// if there is.
    pub(super) fn shrink(&self, tx: &mut Sender<'_, Rings>) -> Result<bool, Hostile> {
        if self.record.has(flag::RESERVED) {
            return Ok(false);
        }
        let left = tx.has_left_larger_rings();
        let slots = if left { Some(0) } else { tx.shrink()? };
        let Some(slots) = slots else {
            return Ok(false);
        };
        self.link.give_back_mine();
        self.note_carriers(Some(tx.state), None);
        self.ring_data(tx, slots);
        Ok(true)
    }

    /// After a growth.
    pub(super) fn note_growth(&self, tx: &Sender<'_, Rings>) {
        self.link.note_growth(tx.level());
        self.link
            .usage
            .note(tx.state.written, os::clock::coarse_ms());
        reclaim::has_grown(self.handle.number);
    }
}
