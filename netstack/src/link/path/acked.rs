//! What acknowledgements say about a path: which packets arrived, and how long they took.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Fate, Fates, Path};
use crate::link::ledger::{Content, Sent};
use crate::link::window::{Acked, Window};
use crate::time::Instant;
use crate::wire::Ack;
use crate::wire::number::expand;

/// `[P6]` An acknowledgement that can be.
pub struct Acknowledged<'a> {
    pub ack: &'a Ack<'a>,
    /// Its range with the largest number.
    pub newest: Range<u64>,
}

impl Acknowledged<'_> {
    #[inline]
    pub fn largest(&self) -> u64 {
        self.newest.end - 1
    }
}

impl<W: Window> Path<W> {
    /// `[P6]` What an acknowledgement says, if all of it can be.
    #[inline(always)]
    pub fn check<'a>(&self, ack: &'a Ack<'a>) -> Option<Acknowledged<'a>> {
        let next = self.ledger.next_number();
        let largest = expand(ack.largest(), next.checked_sub(1)?);
        let newest = ack.newest(largest).filter(|newest| newest.end <= next)?;
        let possible = !ack.has_more() || ack.ranges(largest).all(|range| range.is_some());
        possible.then_some(Acknowledged { ack, newest })
    }

    /// Whether it speaks of the oldest packets, as most do: then `advance` is enough.
    #[inline]
    pub fn is_next(&self, acknowledged: &Acknowledged<'_>) -> bool {
        self.ledger.is_next(&acknowledged.newest)
    }

    /// The oldest packets are acknowledged. What `settles` does not see to by itself is kept.
    #[inline]
    pub fn advance(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        fates: &mut Fates,
        mut settles: impl FnMut(&Content) -> bool,
    ) {
        let mut newly = Newly::new(self.ledger.in_flight());
        while let Some(sent) = self.ledger.take_below(acknowledged.newest.end) {
            newly.follow(&sent);
            if !settles(&sent.content) {
                keep(fates, sent.content);
            }
        }
        self.conclude(now, acknowledged, &newly, fates);
    }

    /// Any packets are acknowledged.
    #[inline(never)]
    pub fn acknowledge(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        fates: &mut Fates,
    ) {
        let largest = acknowledged.largest();
        let mut newly = Newly::new(self.ledger.in_flight());
        let mut late = Vec::new();
        for range in acknowledged.ack.ranges(largest).flatten() {
            let numbers = *range.start()..*range.end() + 1;
            let each = |sent: &Sent| {
                newly.add(sent);
                fates.push((Fate::Acknowledged, sent.content));
            };
            self.ledger
                .acknowledge(numbers, each, |sent| late.push(*sent));
        }
        if !late.is_empty() {
            self.forgive(now, &late, largest, fates);
        }
        self.conclude(now, acknowledged, &newly, fates);
    }

    /// What an acknowledgement says about the path.
    #[inline(always)]
    fn conclude(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        newly: &Newly,
        fates: &mut Fates,
    ) {
        self.heard(now);
        if newly.packets > 0 {
            if newly.largest > self.mtu.base() as u32 {
                self.large_losses = 0;
            }
            (self.probes, self.probes_owed) = (0, 0);
            self.measure(now, acknowledged, newly);
            self.find_losses(now, fates);
        }
        self.rest();
    }

    #[inline]
    fn measure(&mut self, now: Instant, acknowledged: &Acknowledged<'_>, newly: &Newly) {
        let (ack, largest) = (acknowledged.ack, acknowledged.largest());
        let advances = self.largest_acknowledged.is_none_or(|old| old < largest);
        if advances {
            self.largest_acknowledged = Some(largest);
        }
        let mut sample = None;
        if newly.newest == largest {
            let passed = now.nanos_since(newly.sent);
            sample = self.rtt.sample(passed, ack.delay_nanos());
        }
        let marked = match advances {
            true => self.ecn.on_ack(newly.packets, ack.marks()),
            false => None,
        };
        self.window.on_ack(&Acked {
            now,
            bytes: newly.in_flight - self.ledger.in_flight(),
            sent: newly.sent,
            sample,
            rtt: &self.rtt,
            in_flight: newly.in_flight,
            limited: newly.newest < self.limited_below,
            packets: marked.map_or(0, |_| newly.packets),
            marked: marked.unwrap_or(0),
        });
    }

    /// `[R7]` The peer is there, also if it did not take what we sent last.
    #[inline]
    fn heard(&mut self, now: Instant) {
        self.silent_since = Some(now);
        self.last_answer = Some(now);
        self.left_until = None;
    }

    /// With nothing under way there is no silence.
    #[inline]
    pub(super) fn rest(&mut self) {
        if self.ledger.is_settled() && self.probes_owed == 0 {
            self.silent_since = None;
        }
    }
}

/// Packets newly acknowledged.
struct Newly {
    /// Bytes in flight before.
    in_flight: u64,
    packets: u32,
    /// Bytes of the largest.
    largest: u32,
    /// The number of the newest, and when it was sent.
    newest: u64,
    sent: Instant,
}

impl Newly {
    #[inline]
    fn new(in_flight: u64) -> Newly {
        Newly {
            in_flight,
            packets: 0,
            largest: 0,
            newest: 0,
            sent: Instant::ZERO,
        }
    }

    /// One that is newer than those before it.
    #[inline]
    fn follow(&mut self, sent: &Sent) {
        (self.newest, self.sent) = (sent.number, sent.at);
        self.packets += 1;
        self.largest = self.largest.max(sent.bytes);
    }

    fn add(&mut self, sent: &Sent) {
        let (newest, at) = (self.newest, self.sent);
        self.follow(sent);
        if newest > sent.number {
            (self.newest, self.sent) = (newest, at);
        }
    }
}

#[cold]
fn keep(fates: &mut Fates, content: Content) {
    fates.push((Fate::Acknowledged, content));
}
