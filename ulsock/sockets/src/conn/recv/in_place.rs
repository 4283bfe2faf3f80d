//! Looking at what has come in the ring itself, and taking it afterwards.

use std::os::fd::RawFd;

use netstack::ring::{Carrier, Look, Memory};
use rustix::io::Errno;

use crate::conn::buffers::Bin;
use crate::conn::in_place::{Finder, Place, RingView, around_edge};
use crate::conn::{Conn, detach, managed};
use crate::state::process_group;
use crate::state::record::{Counts, flag};

/// Who is read by other processes too, or has reasons to be read by the kernel.
const UNUSUAL: u32 = flag::BROKEN | flag::SHUT_READING | flag::SHARED;

/// The bytes that are in the ring; `None` if there are none, or the next are not there.
///
/// # Safety
/// The descriptor stays open as long as the view lives, and nobody receives from it meanwhile.
pub unsafe fn view(fd: RawFd) -> Option<RingView> {
    let handle = managed(fd)?;
    crate::runtime::engine_flag::glance();
    let conn = Conn::enter(handle)?;
    conn.heed_orders();
    conn.attend();
    if !conn.record.rx.gate.is_closed() || conn.record.has(UNUSUAL) {
        return None;
    }
    let mut held = conn.lock_rx()?;
    let mut rx = conn.receiver(held.state());
    // What is hostile is left for a receive to find.
    let Ok(Look::Ring(len @ 1..)) = rx.look() else {
        return None;
    };
    let Carrier::Ring(level) = rx.state.carrier() else {
        return None;
    };
    let mut found = Finder::default();
    for (at, piece) in around_edge(rx.state.pos, len as usize, rx.size()) {
        if piece > 0 {
            conn.link.rx.drain(level, at, piece, &mut found);
        }
    }
    let (start, carrier) = (rx.state.pos, rx.state.carrier());
    conn.note_carriers(None, Some(held.state()));
    Some(RingView(Place::new(handle, start, carrier, found)))
}

/// Takes the first `n` bytes of the view; `false` if they have to be received as others are, because another process or a
/// change of the carrier has come between.
///
/// # Panics
/// If the view is smaller.
pub fn consume(view: &RingView, n: usize) -> Result<bool, Errno> {
    assert!(n <= view.len());
    let Some(conn) = view
        .0
        .is_ours()
        .then(|| Conn::enter(view.0.handle))
        .flatten()
    else {
        return Ok(false);
    };
    let done = conn.consume(&view.0, n)?;
    if done {
        conn.guard();
        drop(conn);
        if let Some(family) = process_group::own() {
            detach::note_call(family, view.0.handle);
        }
    }
    Ok(done)
}

impl Conn<'_> {
    fn consume(&self, place: &Place, n: usize) -> Result<bool, Errno> {
        let Some(mut held) = self.lock_rx() else {
            return Ok(false);
        };
        let mut rx = self.receiver(held.state());
        let stands = rx.state.pos == place.start && rx.state.carrier() == place.carrier;
        if !stands || self.record.has(UNUSUAL) {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
        self.pull_ring(&mut rx, &mut Bin, n as u64)?;
        Counts::add(&self.record.rx.counts.messages, 1);
        // The kernel's reader keeps up, as in a receive.
        if rx.has_left_ring() {
            let _ = self.settle(&mut rx);
        }
        self.note_carriers(None, Some(held.state()));
        Ok(true)
    }
}
