//! Sending what the program has written into the ring itself.

use std::os::fd::{BorrowedFd, RawFd};

use netstack::ring::{Carrier, Memory, Sender, Source};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::conn::buffers::Outgoing;
use crate::conn::in_place::{Committed, Finder, Place, RingRoom, around_edge};
use crate::conn::{Conn, detach, managed};
use crate::state::process_group;
use crate::state::record::{Counts, flag};
use rendezvous::rings::Rings;

/// Whose next bytes may have to go another way, or must be seen by an ordinary send.
const UNUSUAL: u32 = flag::PINNED
    | flag::PEER_FIN
    | flag::SHUT
    | flag::BROKEN
    | flag::AWAY
    | flag::FAIL_OVER
    | flag::JOINING
    | flag::ORDERED
    | flag::SHARED;

/// Room for `len` bytes in the ring; `None` if they would not all go there now.
///
/// # Safety
/// The descriptor stays open as long as the room lives.
pub unsafe fn reserve(fd: RawFd, len: usize) -> Option<RingRoom> {
    let handle = managed(fd)?;
    let conn = Conn::enter(handle)?;
    let mut held = conn.lock_tx()?;
    let mut tx = conn.sender(held.state());
    let Carrier::Ring(level) = tx.state.carrier() else {
        return None;
    };
    // What is hostile is left for a send to find.
    if len == 0 || !conn.is_usual(&tx) || tx.free(len as u64).ok()? < len as u64 {
        return None;
    }
    if !conn.record.begin(flag::RESERVED) {
        return None;
    }
    let mut found = Finder::default();
    for (at, piece) in around_edge(tx.state.written, len, tx.size()) {
        if piece > 0 {
            conn.link.tx.fill(level, at, piece, &mut found);
        }
    }
    let (start, carrier) = (tx.state.written, tx.state.carrier());
    Some(RingRoom(Place::new(handle, start, carrier, found)))
}

/// Sends the first `n` bytes of the room, or none.
///
/// # Panics
/// If the room is smaller.
pub fn commit(room: &RingRoom, n: usize) -> Result<Committed, Errno> {
    assert!(n <= room.len());
    let Some(conn) = Conn::enter(room.0.handle) else {
        return Ok(Committed::Refused);
    };
    let done = conn.commit(&room.0, n)?;
    if done == Committed::Sent {
        conn.guard();
        drop(conn);
        if let Some(family) = process_group::own() {
            detach::note_call(family, room.0.handle);
        }
    }
    Ok(done)
}

impl Conn<'_> {
    fn is_usual(&self, tx: &Sender<'_, Rings>) -> bool {
        self.record.tx.gate.is_closed()
            && !self.record.has(UNUSUAL)
            && !self.peer_closed()
            && !tx.state.must_resend()
            && !tx.wishes_change()
    }

    fn commit(&self, place: &Place, n: usize) -> Result<Committed, Errno> {
        let Some(mut held) = self.lock_tx() else {
            return Ok(Committed::Refused);
        };
        // As in a send: what is noted here makes these bytes leave the ring.
        self.glance_before_send();
        let mut tx = self.sender(held.state());
        if tx.state.written != place.start {
            return Ok(Committed::Overtaken);
        }
        if tx.state.carrier() != place.carrier || !self.is_usual(&tx) {
            return Ok(Committed::Refused);
        }
        if n == 0 {
            return Ok(Committed::Sent);
        }
        Counts::add(&self.record.tx.counts.messages, 1);
        if self.push(&mut tx, &mut Written, n).is_err() {
            return Err(self.broken());
        }
        // Once more after publishing, as in a send.
        if tx.wishes_change() {
            self.follow_up(&mut tx, 0);
        }
        self.note_carriers(Some(tx.state), None);
        Ok(Committed::Sent)
    }
}

/// The bytes are where they belong.
struct Written;

impl Source for Written {
    unsafe fn give(&mut self, _to: *mut u8, len: usize) -> usize {
        len
    }
}

impl Outgoing for Written {
    /// Never: they are pushed only.
    fn kernel_send(&mut self, _: BorrowedFd<'_>, _: usize, _: SendFlags) -> Result<usize, Errno> {
        Ok(0)
    }
}
