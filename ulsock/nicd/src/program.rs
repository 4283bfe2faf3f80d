//! A program that has connected: its channel, its blocks, and what it has of its user's shares.

use std::collections::HashMap;
use std::sync::Arc;

use super::connection::ConnectionId;
use super::lease::Lease;
use super::shares::Held;
use rendezvous::pair::{Pair, PairSegment};
use shm::doorbell::Doorbell;
use shm::layout::CLAIMER;

pub struct Program {
    pub pair: Arc<Pair>,
    /// What a program of another user rings.
    bell: Option<Doorbell>,
    /// Of its user's shares: a place, and descriptors.
    _place: Held,
    descriptors: Held,
    pub segments: Vec<Arc<PairSegment>>,
    pub by_block: HashMap<(u32, u32), ConnectionId>,
    /// It wants an engine of its own.
    pub asks: bool,
    pub lease: Option<Lease>,
}

impl Program {
    pub fn new(pair: Arc<Pair>, bell: Option<Doorbell>, place: Held, descriptors: Held) -> Program {
        Program {
            pair,
            bell,
            _place: place,
            descriptors,
            segments: Vec::new(),
            by_block: HashMap::new(),
            asks: false,
            lease: None,
        }
    }

    pub fn bell(&self) -> Option<&Doorbell> {
        self.bell.as_ref()
    }

    /// `false`: with the bells that it has sent its user has more than its share. They are its channel, both ends of
    /// our bell for it, and its own bells.
    pub fn counts_descriptors(&mut self) -> bool {
        let ours = 1 + 2 * usize::from(self.bell.is_some());
        self.descriptors.resize(ours + self.pair.bells())
    }

    /// Takes what the program has posted.
    pub fn take_posts(&self, mut each: impl FnMut(ConnectionId)) {
        for segment in &self.segments {
            let board = segment.board(CLAIMER, 0);
            if !board.is_empty() {
                board.take(|conn| {
                    if let Some(id) = self.by_block.get(&(segment.number, conn)) {
                        each(*id);
                    }
                });
            }
        }
    }

    pub fn has_posts(&self) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|segment| !segment.board(CLAIMER, 0).is_empty())
    }
}
