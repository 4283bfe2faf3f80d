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
use super::window::{Acked, Lost, Window};
use crate::time::Instant;
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
    /// [G7] The window let nothing go.
    pub limited: bool,
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
    last_asking: Instant,
    /// Asking packets have been without an answer since.
    silent_since: Option<Instant>,
    /// [G2] What was sent before has been answered for.
    reduced: Instant,
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
            received: Received::default(),
            schedule: Schedule::default(),
            mtu,
            window,
            ecn: EcnCheck::new(config.ecn),
            probes_owed: 0,
            paced: None,
            limited: false,
            late: 0,
            lost: 0,
            ledger: Ledger::default(),
            rtt: Rtt::default(),
            pacer: Pacer::default(),
            threshold: THRESHOLD,
            largest_acknowledged: None,
            loss_at: None,
            probes: 0,
            last_asking: Instant::ZERO,
            silent_since: None,
            reduced: Instant::ZERO,
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
        let time = self.rtt.smoothed() + self.rtt.variation() * 4 + received::DELAY;
        time.max(LEAST_PROBE)
    }

    /// An asking packet leaves.
    #[inline]
    pub fn sent(&mut self, now: Instant, bytes: usize, content: Content) {
        // After a pause the silence begins anew.
        let pause = self.ledger.is_settled() && now - self.last_asking > 2 * MOST_PROBE;
        if pause || self.silent_since.is_none() {
            self.silent_since = Some(now);
        }
        self.last_asking = now;
        self.ledger.sent(now, bytes, content);
        self.pacer
            .on_sent(now, bytes as u64, self.window.rate(&self.rtt));
    }

    /// [G1] [G5] [X2] Whether a packet of this size may leave; if not, it is noted what it waits for.
    #[inline]
    pub fn has_room(&mut self, now: Instant, bytes: usize, most_packets: usize) -> bool {
        let fits = self.ledger.in_flight() + bytes as u64 <= self.window.size();
        if !fits || self.ledger.len() >= most_packets {
            self.limited = true;
            return false;
        }
        let ready = self.pacer.ready_at();
        if ready > now {
            self.paced = Some(ready);
            return false;
        }
        true
    }

    /// [P6] The full number of the largest packet that is acknowledged, if all it says can be.
    #[inline]
    pub fn check(&self, ack: &Ack<'_>) -> Option<u64> {
        let next = self.ledger.next_number();
        let largest = crate::wire::number::expand(ack.largest, next.checked_sub(1)?);
        let possible = largest < next && ack.ranges(largest).all(|range| range.is_some());
        possible.then_some(largest)
    }

    /// An acknowledgement that was checked.
    #[inline]
    pub fn acknowledge(&mut self, now: Instant, ack: &Ack<'_>, largest: u64, fates: &mut Fates) {
        let in_flight = self.ledger.in_flight();
        let (mut bytes, mut packets) = (0, 0);
        let mut newest: Option<Sent> = None;
        let mut late = Vec::new();
        for range in ack.ranges(largest).flatten() {
            let numbers = *range.start()..*range.end() + 1;
            let each = |sent: &Sent| {
                bytes += u64::from(sent.bytes);
                packets += 1;
                if newest.is_none_or(|newest| newest.number < sent.number) {
                    newest = Some(*sent);
                }
                fates.push((Fate::Acknowledged, sent.content));
            };
            self.ledger
                .acknowledge(numbers, each, |sent| late.push(*sent));
        }
        self.forgive(now, &late, largest, fates);
        let Some(newest) = newest else { return };
        self.answered();
        let advances = self.largest_acknowledged.is_none_or(|old| old < largest);
        self.largest_acknowledged = self.largest_acknowledged.max(Some(largest));
        let mut sample = None;
        if newest.number == largest {
            sample = Some(self.rtt.sample(now - newest.at, ack.delay));
        }
        let marked = if advances {
            self.ecn.on_ack(packets, ack.marks)
        } else {
            None
        };
        self.window.on_ack(&Acked {
            now,
            bytes,
            sent: newest.at,
            sample,
            rtt: &self.rtt,
            in_flight,
            limited: self.limited,
            packets: marked.map_or(0, |_| packets),
            marked: marked.unwrap_or(0),
        });
        self.limited = false;
        self.find_losses(now, fates);
    }

    fn answered(&mut self) {
        self.probes = 0;
        self.probes_owed = 0;
        self.silent_since = (!self.ledger.is_settled()).then_some(self.last_asking);
    }

    /// [R6] Packets were only late.
    fn forgive(&mut self, now: Instant, late: &[Sent], largest: u64, fates: &mut Fates) {
        for sent in late {
            self.late += 1;
            fates.push((Fate::Acknowledged, sent.content));
            let distance = largest.saturating_sub(sent.number) + 1;
            self.threshold = self.threshold.max(distance.min(MOST_THRESHOLD));
        }
        if !late.is_empty() {
            self.window.on_spurious(now);
            self.answered();
        }
    }

    /// [R2]
    fn find_losses(&mut self, now: Instant, fates: &mut Fates) {
        self.loss_at = None;
        let Some(largest) = self.largest_acknowledged else {
            return;
        };
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
                lost.bytes += u64::from(sent.bytes);
                lost.newest = Some(sent.at);
            }
        }
        fates.push((Fate::Lost, sent.content));
    }

    /// [G2] Once per round trip.
    fn answer_for(&mut self, now: Instant, lost: &Losses) {
        let Some(sent) = lost.newest.filter(|&at| at >= self.reduced) else {
            return;
        };
        self.reduced = now;
        self.window.on_loss(&Lost {
            now,
            bytes: lost.bytes,
            sent,
            rtt: &self.rtt,
        });
    }

    /// When a probe is due.
    fn probe_at(&self) -> Option<Instant> {
        if self.ledger.is_settled() || self.probes_owed > 0 {
            return None;
        }
        let time = self.probe_time() * (1 << self.probes.min(16));
        Some(self.last_asking + time.min(MOST_PROBE.max(self.probe_time())))
    }

    /// Timers that have run out. `true` if a probe is owed since now.
    pub fn on_time(&mut self, now: Instant, fates: &mut Fates) -> bool {
        if self.loss_at.is_some_and(|at| at <= now) {
            self.find_losses(now, fates);
        }
        if self.probe_at().is_none_or(|at| at > now) {
            return false;
        }
        self.probes += 1;
        self.probes_owed = self.probes.min(2);
        if self.probes == MOST_PROBES {
            self.give_up_all(now, fates);
        }
        true
    }

    /// [R5] [M3] All that is in flight is lost.
    pub fn give_up_all(&mut self, now: Instant, fates: &mut Fates) {
        let mut lost = Losses::default();
        let base = self.mtu.base() as u32;
        let mut all_large = true;
        while let Some(oldest) = self.ledger.oldest() {
            all_large &= oldest.bytes > base;
            self.lose_oldest(now, &mut lost, fates);
        }
        if all_large && self.mtu.fall_back(now) {
            self.window.set_packet(self.mtu.size() as u64);
        }
        self.loss_at = None;
        self.reduced = now;
        self.window.on_silence(now);
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
        self.silent_since.filter(|_| waiting)
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

#[derive(Default)]
struct Losses {
    bytes: u64,
    newest: Option<Instant>,
}
