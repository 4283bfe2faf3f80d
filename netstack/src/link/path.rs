//! One way to the peer: what is in flight on it, what was received, and when something has to happen.

use alloc::vec::Vec;
use core::time::Duration;

use super::config::{Config, Way};
use super::ecn::EcnCheck;
use super::ledger::{Content, Ledger, Sent};
use super::mtu::Mtu;
use super::pacer::Pacer;
use super::received::{self, Received};
use super::rtt::Rtt;
use super::schedule::Schedule;
use super::settle::Acknowledged;
use super::window::{Acked, Lost, Window};
use crate::time::Instant;
use crate::wire::number::expand;
use crate::wire::{frame, Ack, Seal};

/// [R2] Later packets that prove a loss, before any reordering was seen.
const THRESHOLD: u64 = 3;
/// [R6] And at most.
const MOST_THRESHOLD: u64 = 64;
/// [R4] Bounds of the time before a probe.
const LEAST_PROBE: Duration = Duration::from_micros(100);
const MOST_PROBE: Duration = Duration::from_secs(1);
/// [R5] Probes in a row after which all is lost.
const MOST_PROBES: u32 = 3;

/// [R8] How long a path that does not answer is left alone.
const LEFT: Duration = Duration::from_secs(10);
/// [M3] Losses in a row that only packets over 1,200 bytes suffer.
const MOST_LARGE_LOSSES: u32 = 3;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Acknowledged,
    Lost,
}

/// The fates of packets, to be told to those that they carried something for.
pub type Fates = Vec<(Fate, Content)>;

#[derive(Debug)]
pub struct Path<W> {
    pub way: Way,
    pub incoming: Seal,
    pub outgoing: Seal,
    pub received: Received,
    pub schedule: Schedule,
    pub mtu: Mtu,
    pub window: W,
    pub ecn: EcnCheck,
    /// [R4] Probes that are to be sent now.
    pub probes_owed: u32,
    /// The pacer let nothing go, until then.
    pub paced: Option<Instant>,
    /// [R8] An answer is wanted, to know whether there is one.
    pub ping_owed: bool,
    /// [R6] Packets that were only late.
    pub late: u64,
    pub lost: u64,
    ledger: Ledger,
    rtt: Rtt,
    pacer: Pacer,
    threshold: u64,
    largest_acknowledged: Option<u64>,
    loss_at: Option<Instant>,
    /// Probes in a row without an answer.
    probes: u32,
    longest_probe: Duration,
    last_asking: Instant,
    /// [R7] Asking packets have been without an answer since.
    silent_since: Option<Instant>,
    last_answer: Option<Instant>,
    /// [R8] Nobody uses it any more; it is tried again from then on.
    left_until: Option<Instant>,
    /// [G7] When the packets below were sent the window let nothing more go.
    limited_below: u64,
    /// [G2] The loss of packets below has been answered for.
    reduced_below: u64,
    /// [M3] How often in a row only large packets were lost.
    large_losses: u32,
}

impl<W: Window> Path<W> {
    pub fn new(way: Way, me: u64, peer: u64, config: &Config, mut window: W) -> Path<W> {
        let overhead = frame::overhead(&way.outgoing) - frame::ETHERNET;
        let mtu = Mtu::new(config.mtu, overhead);
        window.set_packet(mtu.size() as u64);
        Path {
            way,
            incoming: Seal::link(&way.incoming, peer, me),
            outgoing: Seal::link(&way.outgoing, me, peer),
            received: Received::new(config.first_number),
            schedule: Schedule::default(),
            mtu,
            window,
            ecn: EcnCheck::new(config.ecn),
            probes_owed: 0,
            paced: None,
            ping_owed: false,
            late: 0,
            lost: 0,
            ledger: Ledger::new(config.first_number),
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            threshold: THRESHOLD,
            largest_acknowledged: None,
            loss_at: None,
            probes: 0,
            longest_probe: MOST_PROBE.min(config.patience / 4),
            last_asking: Instant::ZERO,
            silent_since: None,
            last_answer: None,
            left_until: None,
            limited_below: 0,
            reduced_below: 0,
            large_losses: 0,
        }
    }

    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// [R4] How long to wait for an answer before a probe.
    pub fn probe_time(&self) -> Duration {
        (self.rtt.longest() + received::DELAY).max(LEAST_PROBE)
    }

    /// An asking packet leaves.
    #[inline]
    pub fn sent(&mut self, now: Instant, bytes: usize, content: Content) {
        self.silent_since = self.silent_since.or(Some(now));
        self.last_asking = now;
        self.ledger.sent(now, bytes, content);
        self.pacer
            .on_sent(now, bytes as u64, self.window.rate(&self.rtt));
    }

    /// [S1] Whether nothing goes before new bytes.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.probes_owed == 0
            && !self.ping_owed
            && self.schedule.is_fresh_only()
            && self.mtu.is_settled()
    }

    /// [X2] Whether control packets, which do not wait for the window, have to wait for answers.
    pub fn is_full(&self, most_packets: usize) -> bool {
        self.ledger.len() >= 2 * most_packets
    }

    /// [G1] [G5] [X2] Whether a packet of this size may leave; if not, it is noted what it waits for.
    #[inline]
    pub fn has_room(&mut self, now: Instant, bytes: usize, most_packets: usize) -> bool {
        let in_flight = self.ledger.in_flight();
        // One packet always fits, also if it is larger than the least window.
        let fits = in_flight == 0 || in_flight + bytes as u64 <= self.window.size();
        if !fits || self.ledger.len() >= most_packets {
            self.limited_below = self.ledger.next_number();
            return false;
        }
        let ready = self.pacer.ready_at();
        if ready > now {
            self.paced = Some(ready);
            return false;
        }
        true
    }

    /// [P6] What an acknowledgement says, if all of it can be.
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
            sample = Some(self.rtt.sample(passed, ack.delay_nanos()));
        }
        let marked = match advances {
            true => self.ecn.on_ack(newly.packets, ack.marks()),
            false => None,
        };
        self.window.on_ack(&Acked {
            now,
            bytes: newly.in_flight - self.ledger.in_flight(),
            sent: newly.sent,
            sample: sample.map(Duration::from_nanos),
            rtt: &self.rtt,
            in_flight: newly.in_flight,
            limited: newly.newest < self.limited_below,
            packets: marked.map_or(0, |_| newly.packets),
            marked: marked.unwrap_or(0),
        });
    }

    /// [R7] The peer is there, also if it did not take what we sent last.
    #[inline]
    fn heard(&mut self, now: Instant) {
        self.silent_since = Some(now);
        self.last_answer = Some(now);
        self.left_until = None;
    }

    /// With nothing under way there is no silence.
    #[inline]
    fn rest(&mut self) {
        if self.ledger.is_settled() && self.probes_owed == 0 {
            self.silent_since = None;
        }
    }

    /// [R6] Packets were only late.
    fn forgive(&mut self, now: Instant, late: &[Sent], largest: u64, fates: &mut Fates) {
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

    /// [R2]
    #[inline]
    fn find_losses(&mut self, now: Instant, fates: &mut Fates) {
        self.loss_at = None;
        let oldest = self.ledger.oldest().map(|oldest| oldest.number);
        if let (Some(oldest), Some(largest)) = (oldest, self.largest_acknowledged) {
            if oldest <= largest {
                self.lose_before(largest, now, fates);
            }
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

    /// [G2] Once per round trip.
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

    /// [M3]
    fn fall_back(&mut self, now: Instant) {
        self.large_losses = 0;
        if self.mtu.fall_back(now) {
            self.window.set_packet(self.mtu.size() as u64);
        }
    }

    /// When a probe is due.
    #[inline]
    fn probe_at(&self) -> Option<Instant> {
        if self.ledger.is_settled() || self.probes_owed > 0 || self.is_left() {
            return None;
        }
        let time = self.probe_time() * (1 << self.probes.min(16));
        Some(self.last_asking + time.min(self.longest_probe.max(self.probe_time())))
    }

    /// Timers that have run out. `true` if a probe is owed since now.
    pub fn on_time(&mut self, now: Instant, fates: &mut Fates) -> bool {
        if self.loss_at.is_some_and(|at| at <= now) {
            self.find_losses(now, fates);
            self.rest();
        }
        if self.probe_at().is_none_or(|at| at > now) {
            return false;
        }
        self.probes += 1;
        self.probes_owed = self.probes.min(2);
        // And again after as many: what was sent meanwhile may be lost too.
        if self.probes.is_multiple_of(MOST_PROBES) {
            self.give_up_all(now, fates);
        }
        true
    }

    /// [R5] [M3] All that is in flight is lost.
    fn give_up_all(&mut self, now: Instant, fates: &mut Fates) {
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

    /// [R8] Nobody uses it until it answers again.
    pub fn leave(&mut self, now: Instant, fates: &mut Fates) {
        self.give_up_all(now, fates);
        self.schedule.clear();
        (self.probes, self.probes_owed, self.silent_since) = (0, 0, None);
        self.left_until = Some(now + LEFT);
    }

    /// [X2] Of a path that was left only the last question is remembered: it may never answer.
    pub fn forget_tries(&mut self) {
        while self.is_left() && self.ledger.lose_oldest().is_some() {}
    }

    pub fn is_left(&self) -> bool {
        self.left_until.is_some()
    }

    /// [R8] Whether it is time to try a path again that was left; then the next time is later.
    pub fn is_worth_a_try(&mut self, now: Instant) -> bool {
        let due = self.left_until.is_some_and(|at| at <= now);
        if due {
            self.left_until = Some(now + LEFT);
        }
        due
    }

    /// [R4] Probes in a row without an answer.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    pub fn last_answer(&self) -> Option<Instant> {
        self.last_answer
    }

    /// [M1] A PING of this size came through.
    pub fn tried(&mut self, now: Instant, size: usize) {
        if self.mtu.on_ack(now, size) {
            self.window.set_packet(self.mtu.size() as u64);
        }
    }

    /// [R7] Since when there has been no answer.
    pub fn silent_since(&self) -> Option<Instant> {
        let waiting = !self.ledger.is_settled() || self.probes_owed > 0;
        self.silent_since.filter(|_| waiting && !self.is_left())
    }

    /// [R9] When something has to happen.
    pub fn deadline(&self) -> Option<Instant> {
        let times = [
            self.loss_at,
            self.probe_at(),
            self.received.due(),
            self.paced,
        ];
        times.into_iter().flatten().min()
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

    /// [M3]
    fn is_large_only(&self) -> bool {
        self.large && !self.small
    }
}
