//! Which packets of a path are lost, or were only late, and what follows from that.

use super::{Fate, Fates, Path};
use crate::link::ledger::{Content, Sent};
use crate::link::window::{Lost, Window};
use crate::time::Instant;

/// `[R6]` Later packets that prove a loss, at most.
const MOST_THRESHOLD: u64 = 64;
/// `[M3]` Losses in a row that only packets over 1,200 bytes suffer.
const MOST_LARGE_LOSSES: u32 = 3;

impl<W: Window> Path<W> {
    /// `[R6]` Packets were only late.
    pub(super) fn forgive(&mut self, now: Instant, late: &[Sent], largest: u64, fates: &mut Fates) {
        for sent in late {
            self.late += 1;
            fates.push((Fate::Acknowledged, sent.content));
            let distance = largest.saturating_sub(sent.number) + 1;
            self.threshold = self.threshold.max(distance.min(MOST_THRESHOLD));
        }
        let is_trial = |sent: &Sent| matches!(sent.content, Content::Ping { tried: Some(_) });
        (self.probes, self.probes_owed) = (0, 0);
        // [M2] The loss of a trial has reduced nothing.
        if !late.iter().all(is_trial) {
            self.window.on_spurious(now);
        }
    }

    /// `[R2]`
    #[inline]
    pub(super) fn find_losses(&mut self, now: Instant, fates: &mut Fates) {
        self.loss_at = None;
        let oldest = self.ledger.oldest().map(|oldest| oldest.number);
        if let (Some(oldest), Some(largest)) = (oldest, self.largest_acknowledged)
            && oldest <= largest
        {
            self.lose_before(largest, now, fates);
        }
    }

    /// Packets before this number, which was received, may be lost.
    fn lose_before(&mut self, largest: u64, now: Instant, fates: &mut Fates) {
        let mut lost = Losses::default();
        while let Some(oldest) = self.ledger.oldest() {
            if oldest.number > largest {
                break;
            }
            let late = oldest.at + self.rtt.reordering();
            if largest - oldest.number < self.threshold && late > now {
                // Those behind it are younger.
                self.loss_at = Some(late);
                break;
            }
            self.lose_oldest(now, &mut lost, fates);
        }
        self.answer_for(now, &lost);
        // [M3]
        if lost.is_large_only() {
            self.large_losses += 1;
            if self.large_losses >= MOST_LARGE_LOSSES {
                self.fall_back(now);
            }
        }
    }

    fn lose_oldest(&mut self, now: Instant, lost: &mut Losses, fates: &mut Fates) {
        let Some(sent) = self.ledger.lose_oldest() else {
            return;
        };
        match sent.content {
            // [M2]
            Content::Ping { tried: Some(size) } => self.mtu.on_loss(now, size),
            _ => {
                self.lost += 1;
                lost.add(&sent, self.mtu.base());
            }
        }
        fates.push((Fate::Lost, sent.content));
    }

    /// `[G2]` Once per round trip.
    fn answer_for(&mut self, now: Instant, lost: &Losses) {
        let Some(newest) = lost.newest else { return };
        if newest.number < self.reduced_below {
            return;
        }
        self.reduced_below = self.ledger.next_number();
        self.window.on_loss(&Lost {
            now,
            bytes: lost.bytes,
            sent: newest.at,
            rtt: &self.rtt,
        });
    }

    /// `[M3]`
    fn fall_back(&mut self, now: Instant) {
        self.large_losses = 0;
        if self.mtu.fall_back(now) {
            self.window.set_packet(self.mtu.size() as u64);
        }
    }

    /// `[R5]` `[M3]` All that is in flight is lost.
    pub(super) fn give_up_all(&mut self, now: Instant, fates: &mut Fates) {
        let mut lost = Losses::default();
        while self.ledger.oldest().is_some() {
            self.lose_oldest(now, &mut lost, fates);
        }
        if lost.is_large_only() {
            self.fall_back(now);
        }
        self.loss_at = None;
        self.reduced_below = self.ledger.next_number();
        self.window.on_silence(now);
    }
}

#[derive(Default)]
struct Losses {
    bytes: u64,
    newest: Option<Sent>,
    large: bool,
    small: bool,
}

impl Losses {
    fn add(&mut self, sent: &Sent, base: usize) {
        self.bytes += u64::from(sent.bytes);
        self.newest = Some(*sent);
        let is_large = sent.bytes > base as u32;
        self.large |= is_large;
        self.small |= !is_large;
    }

    /// `[M3]`
    fn is_large_only(&self) -> bool {
        self.large && !self.small
    }
}
