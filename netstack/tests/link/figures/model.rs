//! What we are measured against: idealised bulk senders with the window rules of Reno (RFC 5681) and
//! CUBIC (RFC 9438). Every packet is acknowledged by itself, recovery knows exactly what is missing
//! (better than SACK), and only the window and the least retransmission timeout are theirs.

use std::collections::VecDeque;
use std::time::Duration;

use netstack::time::Instant;
use netstack::wire::Addresses;
use netstack::wire::frame::Ecn;

use super::dumbbell::{Host, Leaving, address};
use crate::net::{Datagram, OVERHEAD};

/// A full Ethernet frame, and as many bytes of a program in it as in one of ours: what is compared is
/// how the window is handled.
const PACKET: usize = 1472;
const PAYLOAD: u64 = 1440;
const ACK: usize = 12;
/// Linux has 200 ms; this is as low as one dares in a cluster, and makes the reference stronger.
const LEAST_TIMEOUT: Duration = Duration::from_millis(1);
/// RFC 6928.
const FIRST_WINDOW: f64 = 10.0;
/// RFC 5681, 3.2: later acknowledgements that prove a loss.
const THRESHOLD: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reno,
    Cubic,
}

/// RFC 9438, 4.1 and 4.6.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The window, in packets.
struct Rules {
    kind: Kind,
    window: f64,
    threshold: f64,
    /// CUBIC: the window before the last reduction, when that was, and Reno's window since.
    before: f64,
    since: Option<Instant>,
    friendly: f64,
}

impl Rules {
    fn new(kind: Kind) -> Rules {
        Rules {
            kind,
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            before: 0.0,
            since: None,
            friendly: 0.0,
        }
    }

    /// `in_flight` packets were so before. As in Linux, a window that is not used does not grow; in
    /// slow start it may be twice what is used.
    fn on_ack(&mut self, now: Instant, rtt: Duration, in_flight: usize) {
        let used = in_flight as f64 + 1.0;
        if self.window < self.threshold {
            if self.window < 2.0 * used {
                self.window += 1.0;
            }
            return;
        }
        if used < self.window {
            return;
        }
        match (self.kind, self.since) {
            (Kind::Cubic, Some(since)) => self.grow_cubic(now - since + rtt),
            _ => self.window += 1.0 / self.window,
        }
    }

    fn grow_cubic(&mut self, time: Duration) {
        let k = cube_root(self.before * (1.0 - BETA) / C);
        let past = time.as_secs_f64() - k;
        let target = C * past * past * past + self.before;
        let slope = if self.friendly < self.before {
            FRIENDLY
        } else {
            1.0
        };
        self.friendly += slope / self.window;
        let target = target.min(1.5 * self.window);
        self.window += ((target - self.window) / self.window).max(0.0);
        self.window = self.window.max(self.friendly);
    }

    fn on_loss(&mut self, now: Instant) {
        let less = match self.kind {
            Kind::Reno => self.window / 2.0,
            Kind::Cubic => self.window * BETA,
        };
        // RFC 9438, 4.7: fast convergence.
        self.before = match self.window < self.before {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.since = Some(now);
        self.window = less.max(2.0);
        self.friendly = self.window;
        self.threshold = self.window;
    }

    fn on_timeout(&mut self, now: Instant) {
        self.on_loss(now);
        self.window = 1.0;
    }
}

/// By Newton, from operations that give the same on every machine.
fn cube_root(x: f64) -> f64 {
    let step = |root: f64| (2.0 * root + x / (root * root)) / 3.0;
    (0..60).fold(x.max(1.0), |root, _| step(root))
}

struct Sent {
    /// In the order of sending, never used again.
    number: u64,
    sequence: u64,
    at: Instant,
    acknowledged: bool,
}

pub struct Sender {
    addresses: Addresses,
    rules: Rules,
    sent: VecDeque<Sent>,
    in_flight: usize,
    numbers: u64,
    sequences: u64,
    lost: VecDeque<u64>,
    delivered: u64,
    rtt: Duration,
    /// Losses of packets sent before are answered for.
    reduced: u64,
    last_heard: Instant,
}

fn addresses(me: u8, peer: u8) -> Addresses {
    Addresses {
        source: address(me, 9),
        destination: address(peer, 9),
    }
}

impl Sender {
    pub fn new([me, peer]: [u8; 2], kind: Kind) -> Sender {
        Sender {
            addresses: addresses(me, peer),
            rules: Rules::new(kind),
            sent: VecDeque::new(),
            in_flight: 0,
            numbers: 0,
            sequences: 0,
            lost: VecDeque::new(),
            delivered: 0,
            rtt: Duration::from_millis(1),
            reduced: 0,
            last_heard: Instant::ZERO,
        }
    }

    fn timeout(&self) -> Option<Instant> {
        let newest = self.sent.back()?.at.max(self.last_heard);
        Some(newest + LEAST_TIMEOUT.max(self.rtt * 3))
    }

    fn find_losses(&mut self, now: Instant, largest: u64) {
        while let Some(oldest) = self.sent.front() {
            if !oldest.acknowledged && oldest.number + THRESHOLD > largest {
                break;
            }
            let Some(gone) = self.sent.pop_front() else {
                break;
            };
            if gone.acknowledged {
                continue;
            }
            self.in_flight -= 1;
            self.lost.push_back(gone.sequence);
            if gone.number >= self.reduced {
                self.reduced = self.numbers;
                self.rules.on_loss(now);
            }
        }
    }
}

impl Host for Sender {
    fn receive(&mut self, now: Instant, datagram: &Datagram) {
        let number = datagram.payload.first_chunk().copied();
        let number = u64::from_be_bytes(number.expect("a number"));
        let Some(first) = self.sent.front().map(|sent| sent.number) else {
            return;
        };
        let index = number.checked_sub(first).map(|index| index as usize);
        let Some(sent) = index.and_then(|index| self.sent.get_mut(index)) else {
            return;
        };
        sent.acknowledged = true;
        let (sample, in_flight) = (now - sent.at, self.in_flight);
        self.rtt = (self.rtt * 7 + sample) / 8;
        self.in_flight -= 1;
        self.delivered += PAYLOAD;
        self.last_heard = now;
        // RFC 5681, 3.2: no growth during recovery.
        if number >= self.reduced {
            self.rules.on_ack(now, self.rtt, in_flight);
        }
        self.find_losses(now, number);
    }

    fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<Leaving> {
        if self.timeout().is_some_and(|at| at <= now) {
            self.rules.on_timeout(now);
            self.reduced = self.numbers;
            let open = self.sent.drain(..).filter(|sent| !sent.acknowledged);
            self.lost.extend(open.map(|sent| sent.sequence));
            self.in_flight = 0;
        }
        if self.in_flight >= self.rules.window as usize {
            return None;
        }
        let sequence = self.lost.pop_front().unwrap_or_else(|| {
            self.sequences += 1;
            self.sequences
        });
        self.sent.push_back(Sent {
            number: self.numbers,
            sequence,
            at: now,
            acknowledged: false,
        });
        self.in_flight += 1;
        out[..8].copy_from_slice(&self.numbers.to_be_bytes());
        self.numbers += 1;
        Some(Leaving {
            length: PACKET,
            ecn: Ecn::NotCapable,
            overhead: OVERHEAD,
            addresses: self.addresses,
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout()
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }
}

/// Acknowledges every packet.
pub struct Sink {
    addresses: Addresses,
    owed: VecDeque<[u8; 8]>,
    delivered: u64,
}

impl Sink {
    pub fn new([me, peer]: [u8; 2]) -> Sink {
        Sink {
            addresses: addresses(me, peer),
            owed: VecDeque::new(),
            delivered: 0,
        }
    }
}

impl Host for Sink {
    fn receive(&mut self, _: Instant, datagram: &Datagram) {
        self.delivered += PAYLOAD;
        self.owed
            .extend(datagram.payload.first_chunk::<8>().copied());
    }

    fn transmit(&mut self, _: Instant, out: &mut [u8]) -> Option<Leaving> {
        let number = self.owed.pop_front()?;
        out[..8].copy_from_slice(&number);
        Some(Leaving {
            length: ACK,
            ecn: Ecn::NotCapable,
            overhead: OVERHEAD,
            addresses: self.addresses,
        })
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }
}
