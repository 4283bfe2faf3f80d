//! What comes from senders on other hosts: by which relay, and the rings of those that this member relays.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use netstack::broadcast::Rung;

use crate::group::memory::OwnRing;
use crate::group::near::give_ring;
use crate::share::{self, Deposit};

/// A sender that this member reads at a relay.
#[derive(Debug)]
pub struct Feed {
    pub relay: u32,
    /// Of the sender's ring.
    pub size: u64,
    /// How far the receiver has come, and what of it the sender has been told.
    pub taken: Arc<AtomicU64>,
    pub told: u64,
    /// The sender is there.
    pub is_live: bool,
    /// The relay has said that nothing more comes.
    pub is_drained: bool,
    /// The relay was asked where its ring is.
    pub is_asked: bool,
    /// The relay is no member here; the sender has time until then to name another one.
    pub lost_until: Option<Instant>,
}

impl Feed {
    pub fn new(start: u64, size: u64, relay: u32) -> Feed {
        Feed {
            relay,
            size,
            taken: Arc::new(AtomicU64::new(start)),
            told: start,
            is_live: true,
            is_drained: false,
            is_asked: false,
            lost_until: None,
        }
    }

    /// The sender has named this relay.
    pub fn change_relay(&mut self, relay: u32) {
        self.relay = relay;
        self.is_asked = false;
        self.is_drained = false;
        self.lost_until = None;
    }

    /// If the sender is to hear of it.
    pub fn news(&mut self) -> Option<u64> {
        let taken = self.taken.load(Ordering::Acquire);
        let is_news = self.is_live && taken != self.told;
        self.told = taken;
        is_news.then_some(taken)
    }
}

/// The ring in which this member gives a sender's bytes to the others of its host. Positions are those of the sender, so that
/// whoever has read another relay goes on here.
pub struct Relay {
    pub ring: Arc<OwnRing>,
    tail: u64,
    /// Without it nobody else can read it.
    deposit: Option<Deposit>,
    /// Of the others, and of our own receiver.
    pub rung: HashMap<u32, Rung>,
    pub own_rung: Rung,
}

impl Relay {
    pub fn new(base: u64, size: u64) -> Option<Relay> {
        let (ring, fd) = OwnRing::new(size).ok()?;
        ring.head().begin(base);
        Some(Relay {
            ring: Arc::new(ring),
            tail: base,
            deposit: give_ring(fd).ok(),
            rung: HashMap::new(),
            own_rung: Rung::default(),
        })
    }

    /// One that leads nowhere is refused.
    pub fn ticket(&self) -> [u8; share::LEN] {
        let ticket = self.deposit.as_ref().map(Deposit::ticket);
        ticket.map_or([0; share::LEN], |ticket| ticket.to_bytes())
    }

    /// The sender's next bytes; up to where there are some then. `None`: they are not the next.
    ///
    /// There is room for them: the sender keeps within a ring of the same size what somebody has not taken.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Option<u64> {
        if at != self.tail || bytes.len() as u64 > self.ring.size() {
            return None;
        }
        self.ring.head().claim(at + bytes.len() as u64);
        self.ring.write(at, bytes);
        self.tail += bytes.len() as u64;
        self.ring.head().publish(self.tail);
        Some(self.tail)
    }
}
