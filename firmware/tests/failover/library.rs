//! The library of one side, with its program: it writes so many bytes, ends its stream, and reads to the
//! end. The decisions are `Side`'s; this is what a sockets layer does about them.

use std::time::Duration;

use firmware::{EndpointId, Segment as _};
use netstack::failover::record::LENGTH;
use netstack::failover::{Arrived, Prepare, Role, Segment, Side, Stage, Tip};
use netstack::ring::sync::Ordering;
use netstack::ring::{Tail, tail};
use netstack::time::Instant;

use super::pipe::Pipe;
use crate::program::Shm;
use crate::support::stream;

/// Bytes or an end that are not acknowledged for so long make it fail over.
const DEADLINE: Duration = Duration::from_millis(4);
/// So long A waits for OPEN, and B with something to write.
const JOIN_TIMEOUT: Duration = Duration::from_millis(2);

impl Segment for Shm {
    fn tail(&self) -> Tail {
        Tail::read(&self.receiving().shared.producer.tail)
    }

    fn freeze(&self) -> Tail {
        tail::freeze(&self.receiving().shared.producer.tail)
    }

    fn freed(&self) -> u64 {
        self.sending().shared.consumer.head.load(Ordering::Acquire)
    }

    fn filled(&self) -> u64 {
        self.sending().shared.producer.tail.load(Ordering::Acquire)
    }
}

/// What has happened, for a test that nothing happens in proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    pub by_link: u64,
    pub by_kernel: u64,
    /// Bytes that came twice.
    pub skipped: u64,
    pub given_up: u64,
    pub resumed: u64,
    pub answered: u64,
    /// B saw that A had given up.
    pub followed: u64,
}

impl std::ops::Add for Score {
    type Output = Score;

    fn add(self, other: Score) -> Score {
        Score {
            by_link: self.by_link + other.by_link,
            by_kernel: self.by_kernel + other.by_kernel,
            skipped: self.skipped + other.skipped,
            given_up: self.given_up + other.given_up,
            resumed: self.resumed + other.resumed,
            answered: self.answered + other.answered,
            followed: self.followed + other.followed,
        }
    }
}

pub struct Library {
    pub side: Side,
    /// Of the last promotion.
    pub segment: Option<Shm>,
    pub endpoint: Option<EndpointId>,
    /// Its engine serves the promotion, as far as it knows.
    pub served: bool,
    /// [C11] The engine has heard that the end is acknowledged.
    pub end_acked: bool,
    /// When something has last been acknowledged, or the promotion began.
    since: Instant,
    freed: u64,
    pub written: u64,
    pub write_to: u64,
    pub closed: bool,
    pub read: u64,
    pub eof: bool,
    /// The next byte of the ring that goes to the kernel.
    next: u64,
    pub score: Score,
}

impl Library {
    pub fn new(role: Role, bytes: u64) -> Library {
        Library {
            side: Side::new(role, 0),
            segment: None,
            endpoint: None,
            served: false,
            end_acked: false,
            since: Instant::ZERO,
            freed: 0,
            written: 0,
            write_to: bytes,
            closed: false,
            read: 0,
            eof: false,
            next: 0,
            score: Score::default(),
        }
    }

    pub fn is_done(&self) -> bool {
        let ended = match self.side.stage() {
            Stage::Kernel => true,
            Stage::Linked => self.end_acked,
            _ => false,
        };
        self.eof && self.closed && ended
    }

    fn tail(&self) -> Option<Tail> {
        self.segment.as_ref().map(|segment| segment.tail())
    }

    /// [F2] [F3] It may take part in a promotion now.
    pub fn can_join(&self, from_peer: &Pipe) -> bool {
        let lives = !self.closed && !self.eof && !from_peer.fin;
        lives && from_peer.is_empty() && self.side.can_join(self.tail(), self.read)
    }

    /// A proposes.
    pub fn propose(&mut self, now: Instant, random: u64) -> Prepare {
        let prepare = self.side.propose(random, self.written, self.read);
        self.enter(now);
        prepare
    }

    /// B agrees, or not.
    pub fn agree(&mut self, now: Instant, prepare: &Prepare, from_peer: &Pipe) -> bool {
        let agrees = self.can_join(from_peer) && self.side.agree(prepare, self.written, self.read);
        if agrees {
            self.enter(now);
        }
        agrees
    }

    /// [F4] A new segment.
    fn enter(&mut self, now: Instant) {
        self.segment = Some(Shm::new(0, self.written, self.read));
        self.endpoint = None;
        self.served = true;
        self.end_acked = false;
        self.since = now;
        self.freed = self.written;
    }

    /// Does what there is to do; its program writes something only if it is in the mood.
    pub fn run(&mut self, now: Instant, to_peer: &mut Pipe, from_peer: &mut Pipe, mood: bool) {
        if let Some(tail) = self.tail() {
            self.side.see(tail);
        }
        self.read_ring();
        self.look(from_peer);
        if mood {
            self.write(to_peer);
        }
        self.watch(now);
        self.resume(to_peer);
        self.end(from_peer);
    }

    /// [F21] The ring is read before the kernel.
    fn read_ring(&mut self) {
        let Some(segment) = &self.segment else { return };
        let tail = segment.tail();
        let count = tail.offset() - self.read.min(tail.offset());
        let bytes = segment.read_received(self.read, count);
        assert!(bytes == stream(self.read, count), "ring, at {}", self.read);
        self.read += count;
        self.score.by_link += count;
        segment
            .receiving()
            .shared
            .consumer
            .head
            .store(self.read.min(tail.offset()), Ordering::SeqCst);
        // [F22]
        let joined = !matches!(self.side.stage(), Stage::Kernel | Stage::Joining);
        self.eof |= tail.has_ended() && joined && self.read == tail.offset();
    }

    fn look(&mut self, from_peer: &mut Pipe) {
        while !from_peer.is_empty() {
            let joining = self.side.stage() == Stage::Joining;
            let arrived = match &self.segment {
                Some(segment) => self.side.look(from_peer.peek(LENGTH), segment),
                None => Ok(Arrived::Plain { skip: 0 }),
            };
            let follows = joining && self.side.stage() == Stage::Kernel;
            self.score.followed += u64::from(follows);
            match arrived.expect("an honest peer") {
                Arrived::Plain { skip: 0 } => {
                    self.read_ring();
                    let bytes = from_peer.read(5000);
                    let count = bytes.len() as u64;
                    assert!(
                        bytes == stream(self.read, count),
                        "kernel, at {}",
                        self.read
                    );
                    self.read += count;
                    self.score.by_kernel += count;
                    self.side.took(count);
                }
                Arrived::Plain { skip } => {
                    let skipped = from_peer.read(skip).len() as u64;
                    self.score.skipped += skipped;
                    self.side.took(skipped);
                }
                Arrived::Record => drop(from_peer.read(LENGTH as u64)),
                Arrived::Part | Arrived::NotYet => break,
            }
        }
    }

    fn write(&mut self, to_peer: &mut Pipe) {
        let left = self.write_to - self.written;
        let bytes = stream(self.written, left.min(3000));
        match self.side.stage() {
            Stage::Kernel if !self.closed => {
                let count = to_peer.write(&bytes);
                if count > 0 {
                    self.side.spoke();
                }
                self.written += count;
            }
            Stage::Linked if !self.closed => {
                if let Some(segment) = &self.segment {
                    let count = segment.write_sending(self.written, &bytes);
                    self.written += count;
                }
            }
            _ => return,
        }
        if self.written == self.write_to && !self.closed {
            self.close(to_peer);
        }
    }

    fn close(&mut self, to_peer: &mut Pipe) {
        self.closed = true;
        match (self.side.stage(), &self.segment) {
            (Stage::Linked, Some(segment)) => {
                let producer = &segment.sending().shared.producer;
                producer.closed.store(1, Ordering::SeqCst);
            }
            _ => {
                self.side.spoke();
                to_peer.fin = true;
            }
        }
    }

    /// [F8] [F9] [F15] Whether it is time to go back.
    fn watch(&mut self, now: Instant) {
        let Some(segment) = &self.segment else { return };
        let (freed, tail) = (segment.freed(), segment.tail());
        let owes = freed < segment.filled() || self.closed && !self.end_acked;
        if freed != self.freed || !owes && self.side.stage() == Stage::Linked {
            (self.freed, self.since) = (freed, now);
        }
        match self.side.stage() {
            Stage::Joining if now.since(self.since) > JOIN_TIMEOUT || !self.served => {
                let tail = segment.freeze();
                if self.side.give_up(tail) {
                    self.score.given_up += 1;
                } else {
                    self.side.freeze();
                }
            }
            Stage::Linked
                if now.since(self.since) > DEADLINE || !self.served || tail.is_frozen() =>
            {
                segment.freeze();
                self.side.freeze();
            }
            _ => {}
        }
    }

    /// [F16] [F18] RESUME, and then the ring.
    fn resume(&mut self, to_peer: &mut Pipe) {
        let Some(segment) = &self.segment else { return };
        if !to_peer.has_room(LENGTH) || to_peer.fin {
            return;
        }
        let tail = segment.tail();
        if let Some(record) = self.side.answer(tail, self.written) {
            to_peer.write(&record.to_bytes());
            self.score.answered += 1;
        }
        if self.side.stage() == Stage::Frozen {
            self.score.resumed += 1;
            let record = self.side.resume(tail, segment.freed(), self.written);
            self.next = record.from;
            to_peer.write(&record.to_bytes());
        }
        if self.side.stage() == Stage::Resending {
            let bytes = segment.read_sending(self.next, self.written - self.next);
            assert!(bytes == stream(self.next, self.written - self.next));
            self.next += to_peer.write(&bytes);
            if self.next == self.written {
                self.side.resent();
                to_peer.fin = self.closed;
            }
        }
    }

    fn end(&mut self, from_peer: &Pipe) {
        if let Some(tip) = from_peer.tip().filter(|_| !self.eof) {
            match self.side.end(tip, self.tail(), self.read) {
                Some(Tip::Fin) => self.eof = true,
                Some(Tip::Broken) => panic!("an end before its time"),
                None => {}
            }
        }
    }

    /// Its ring must be looked at by nobody else any more.
    pub fn has_left(&self) -> bool {
        let left = !matches!(self.side.stage(), Stage::Joining | Stage::Linked);
        left && self.endpoint.is_some()
    }
}
