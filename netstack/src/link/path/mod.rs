//! One way to the peer: what is in flight on it, what was received, and when something has to happen.

mod acked;
mod lost;

pub use acked::Acknowledged;

use alloc::vec::Vec;
use core::time::Duration;

use crate::link::config::{Config, Way};
use crate::link::ecn::EcnCheck;
use crate::link::ledger::{Content, Ledger};
use crate::link::mtu::Mtu;
use crate::link::pacer::Pacer;
use crate::link::received::{self, Received};
use crate::link::rtt::Rtt;
use crate::link::schedule::Schedule;
use crate::link::window::Window;
use crate::time::{Instant, earlier};
use crate::wire::{Seal, frame};

/// `[R2]` Later packets that prove a loss, before any reordering was seen.
const THRESHOLD: u64 = 3;
/// `[R4]` Bounds of the time before a probe.
const LEAST_PROBE: Duration = Duration::from_micros(100);
const MOST_PROBE: Duration = Duration::from_secs(1);
/// `[R4]` The least if this host sleeps, and the peer perhaps, too: longer than it waits for an answer (`[P4]`).
const LEAST_SLEEPY_PROBE: Duration = Duration::from_millis(3);
/// `[R5]` Probes in a row after which all is lost.
const MOST_PROBES: u32 = 3;

/// `[R8]` How long a path that does not answer is left alone.
const LEFT: Duration = Duration::from_secs(10);

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
    /// `[R4]` Probes that are to be sent now.
    pub probes_owed: u32,
    /// The pacer let nothing go, until then.
    pub paced: Option<Instant>,
    /// `[R8]` An answer is wanted, to know whether there is one.
    pub ping_owed: bool,
    /// `[R6]` Packets that were only late.
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
    least_probe: Duration,
    last_asking: Instant,
    /// `[R7]` Asking packets have been without an answer since.
    silent_since: Option<Instant>,
    last_answer: Option<Instant>,
    /// `[R8]` Nobody uses it any more; it is tried again from then on.
    left_until: Option<Instant>,
    /// `[G7]` When the packets below were sent more than half of the window was in use.
    limited_below: u64,
    /// `[G2]` The loss of packets below has been answered for.
    reduced_below: u64,
    /// `[M3]` How often in a row only large packets were lost.
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
            least_probe: LEAST_PROBE,
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

    /// `[R4]` How long to wait for an answer before a probe.
    #[inline]
    pub fn probe_time(&self) -> Duration {
        (self.rtt.longest() + received::DELAY).max(self.least_probe)
    }

    /// An asking packet leaves, of a host that sleeps until its answer or not.
    #[inline]
    pub fn sent(&mut self, now: Instant, bytes: usize, content: Content, sleepy: bool) {
        self.received.answer(now);
        self.least_probe = match sleepy {
            true => LEAST_SLEEPY_PROBE,
            false => LEAST_PROBE,
        };
        self.silent_since = self.silent_since.or(Some(now));
        self.last_asking = now;
        if self.ledger.in_flight() == 0 {
            self.pacer.begin();
        }
        self.ledger.sent(now, bytes, content);
        if 2 * self.ledger.in_flight() > self.window.size() {
            self.limited_below = self.ledger.next_number();
        }
        self.pacer
            .on_sent(now, bytes as u64, self.window.rate(&self.rtt));
    }

    /// `[S1]` Whether nothing goes before new bytes.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.probes_owed == 0
            && !self.ping_owed
            && self.schedule.is_fresh_only()
            && self.mtu.is_settled()
    }

    /// `[X2]` Whether control packets, which do not wait for the window, have to wait for answers.
    pub fn is_full(&self, most_packets: usize) -> bool {
        self.ledger.len() >= 2 * most_packets
    }

    /// `[G1]` `[G5]` `[X2]` Whether a packet of this size may leave; if not, it is noted what it waits for.
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

    /// When a probe is due.
    #[inline]
    fn probe_at(&self) -> Option<Instant> {
        if self.ledger.is_settled() || self.probes_owed > 0 || self.is_left() {
            return None;
        }
        let first = self.probe_time();
        if self.probes == 0 {
            return Some(self.last_asking + first);
        }
        let time = first * (1 << self.probes.min(16));
        Some(self.last_asking + time.min(self.longest_probe.max(first)))
    }

    /// When `on_time` has something to do.
    #[inline]
    pub fn timer(&self) -> Option<Instant> {
        earlier(self.loss_at, self.probe_at())
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

    /// `[R8]` Nobody uses it until it answers again.
    pub fn leave(&mut self, now: Instant, fates: &mut Fates) {
        self.give_up_all(now, fates);
        self.schedule.clear();
        (self.probes, self.probes_owed, self.silent_since) = (0, 0, None);
        self.left_until = Some(now + LEFT);
    }

    /// `[X2]` Of a path that was left only the last question is remembered: it may never answer.
    pub fn forget_tries(&mut self) {
        while self.is_left() && self.ledger.lose_oldest().is_some() {}
    }

    pub fn is_left(&self) -> bool {
        self.left_until.is_some()
    }

    /// `[R8]` Whether it is time to try a path again that was left; then the next time is later.
    pub fn is_worth_a_try(&mut self, now: Instant) -> bool {
        let due = self.left_until.is_some_and(|at| at <= now);
        if due {
            self.left_until = Some(now + LEFT);
        }
        due
    }

    /// `[R4]` Probes in a row without an answer.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    pub fn last_answer(&self) -> Option<Instant> {
        self.last_answer
    }

    /// `[M1]` A PING of this size came through.
    pub fn tried(&mut self, now: Instant, size: usize) {
        if self.mtu.on_ack(now, size) {
            self.window.set_packet(self.mtu.size() as u64);
        }
    }

    /// `[R7]` Since when there has been no answer.
    #[inline]
    pub fn silent_since(&self) -> Option<Instant> {
        let waiting = !self.ledger.is_settled() || self.probes_owed > 0;
        self.silent_since.filter(|_| waiting && !self.is_left())
    }

    /// `[R9]` When something has to happen.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        earlier(self.timer(), earlier(self.received.due(), self.paced))
    }

    /// Something waits for its turn, whatever time it is. `[R8]` One that does not answer may have to be
    /// left, or tried again.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        let is_silent = self.probes > 0 || self.is_left();
        let owes = self.probes_owed > 0 || self.ping_owed || self.may_try_size();
        is_silent || owes || !self.schedule.is_empty()
    }

    /// `[M1]` A size waits to be tried, and there is a round trip to judge it by.
    #[inline]
    fn may_try_size(&self) -> bool {
        self.mtu.is_trying() && self.rtt.is_known()
    }
}
