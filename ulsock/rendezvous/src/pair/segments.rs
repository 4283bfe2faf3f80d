//! The segments of a pair. Those that a peer has sent are mapped when a genuine claim names one of their blocks, not
//! before: eleven gigabytes of address space each are nothing to give to whoever asks.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use super::share::Share;
use super::{Claim, PairSegment};
use crate::reason::Reason;
use os::fds;
use os::fds::InternalFd;
use shm::layout::{LARGE, Layout, SMALL};
use shm::segment::SegmentError;

/// Segments of one pair: 64 Ki connections.
const MOST_SEGMENTS: usize = 64;
/// Those of them whose descriptors we keep, because they are not mapped yet.
const MOST_UNMAPPED: usize = 8;

/// In the order in which they were made; their numbers are their places.
pub(super) struct Segments {
    all: Vec<Kept>,
    share: Arc<Share>,
}

enum Kept {
    Mapped(Arc<PairSegment>),
    Sent(Sent),
    /// Its claims are turned down.
    LetGo,
}

struct Sent {
    layout: Layout,
    fd: InternalFd,
    /// Blocks to let go of as soon as it is mapped: nothing has come of their claims.
    turned_down: Vec<(u32, Reason)>,
}

impl Segments {
    pub(super) fn new(share: Arc<Share>) -> Segments {
        Segments {
            all: Vec::new(),
            share,
        }
    }

    /// The peer's next. `false` if it breaks the protocol.
    pub(super) fn keep(&mut self, number: u32, conns: u32, fd: InternalFd, known: bool) -> bool {
        let most = if known { MOST_SEGMENTS } else { 1 };
        let (Some(layout), true) = (
            Layout::new(conns),
            number as usize == self.all.len() && self.all.len() < most,
        ) else {
            return false;
        };
        if self.is_full() {
            self.let_go_of_the_oldest();
        }
        let in_our_range = fd.as_raw_fd() >= fds::own_range_begins();
        let kept = match in_our_range && self.share.take() {
            true => Kept::Sent(Sent {
                layout,
                fd,
                turned_down: Vec::new(),
            }),
            false => Kept::LetGo,
        };
        self.all.push(kept);
        true
    }

    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        let is_mapped = |kept: &&Kept| matches!(kept, Kept::Mapped(_));
        self.all.iter().filter(is_mapped).count()
    }

    pub(super) fn unmapped(&self) -> usize {
        let is_sent = |kept: &&Kept| matches!(kept, Kept::Sent(_));
        self.all.iter().filter(is_sent).count()
    }

    /// Before more of them come, the claims that have come should be looked at.
    pub(super) fn is_full(&self) -> bool {
        self.unmapped() >= MOST_UNMAPPED
    }

    fn let_go_of_the_oldest(&mut self) {
        let is_sent = |kept: &Kept| matches!(kept, Kept::Sent(_));
        if let Some(oldest) = self.all.iter().position(is_sent) {
            self.all[oldest] = Kept::LetGo;
            self.share.give(1);
        }
    }

    /// Maps it if need be. `Err`: it is not what a segment must be.
    pub(super) fn map(&mut self, number: u32) -> Result<Option<Arc<PairSegment>>, SegmentError> {
        let Some(kept) = self.all.get_mut(number as usize) else {
            return Ok(None);
        };
        let sent = match kept {
            Kept::Mapped(segment) => return Ok(Some(segment.clone())),
            Kept::LetGo => return Ok(None),
            Kept::Sent(sent) => sent,
        };
        let fd = sent.fd.as_fd();
        let adopted = PairSegment::adopt(number, sent.layout, fd, self.share.clone());
        let segment = match adopted {
            // There may be more of what is lacking later.
            Err(SegmentError::Os(_)) => return Ok(None),
            other => Arc::new(other?),
        };
        for (conn, reason) in &sent.turned_down {
            segment.turn_down(*conn, *reason);
        }
        *kept = Kept::Mapped(segment.clone());
        self.share.give(1);
        Ok(Some(segment))
    }

    /// Nothing comes of a claim: its block is free again, and the peer knows why.
    pub(super) fn turn_down(&mut self, claim: &Claim, reason: Reason) {
        match self.all.get_mut(claim.segment as usize) {
            Some(Kept::Mapped(segment)) => segment.turn_down(claim.conn, reason),
            Some(Kept::Sent(sent)) if sent.turned_down.len() < sent.layout.conns() as usize => {
                sent.turned_down.push((claim.conn, reason));
            }
            _ => {}
        }
    }

    /// Claiming side: a free block of those that there are.
    pub(super) fn allocate(&self) -> Option<(Arc<PairSegment>, u32)> {
        let allocate = |kept: &Kept| match kept {
            Kept::Mapped(segment) => Some((segment.clone(), segment.allocate()?)),
            _ => None,
        };
        self.all.iter().rev().find_map(allocate)
    }

    /// Claiming side: the peer's user owes no more than it really does.
    pub(super) fn settle_debts(&self) {
        for kept in &self.all {
            if let Kept::Mapped(segment) = kept {
                segment.settle_debts();
            }
        }
    }

    /// Claiming side: one more, and the descriptor for the peer.
    pub(super) fn create(&self) -> Option<(Arc<PairSegment>, InternalFd)> {
        if self.all.len() >= MOST_SEGMENTS || self.share.owes_too_much() {
            return None;
        }
        let conns = if self.all.is_empty() { SMALL } else { LARGE };
        let number = self.all.len() as u32;
        let (segment, fd) = PairSegment::create(number, conns, self.share.clone())?;
        Some((Arc::new(segment), fd))
    }

    /// The peer has been sent it.
    pub(super) fn add(&mut self, segment: Arc<PairSegment>) {
        self.all.push(Kept::Mapped(segment));
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        self.share.give(self.unmapped() as u32);
    }
}
