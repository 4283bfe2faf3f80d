//! An endpoint: the engine's side of one connection's two rings.
//!
//! The engine is the consumer of the ring that the program sends into, and the producer of the one that
//! it reads. It keeps its own copy of every cursor; what the program wrote is read once, checked
//! against those, and only then used.

use netstack::crc32c::Crc;
use netstack::link::Id;
use netstack::ring::mark::{LEVEL_SIZE, LEVELS, MAX_OFFSET};
use netstack::ring::sync::{Ordering, publish};
use netstack::ring::{Hostile, Memory, Slots, Tail, tail};

use crate::segment::Segment;

/// Copied and summed at a time: what the copy has brought into the nearest cache, the sum finds there.
const STEP: usize = 1152;

/// The slot of the engine's own on every wire that it waits at: nobody else waits on its side.
const OURS: usize = 0;
/// What a program finds there: waiter 0 of the engine's process, and the first of its boards above it.
const NAME: u32 = 1 << 16;

/// Where a segment's two streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursors {
    pub freed: u64,
    pub placed: u64,
}

impl Cursors {
    /// Of a segment that was laid out, and in which nothing has been placed yet.
    pub fn of(segment: &impl Segment) -> Result<Cursors, Hostile> {
        let (sending, receiving) = (segment.sending().shared, segment.receiving().shared);
        let freed = sending.consumer.head.load(Ordering::Acquire);
        let placed = Tail::read(&receiving.producer.tail);
        let read = receiving.consumer.head.load(Ordering::Acquire);
        let level = usize::from(segment.level());
        let is_right = level < LEVELS && freed < MAX_OFFSET && read == placed.offset();
        let placed = placed.offset();
        is_right.then_some(Cursors { freed, placed }).ok_or(Hostile)
    }
}

/// Wires that are to be rung.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tripped {
    /// Programs that wait for bytes.
    pub data: Slots,
    /// Programs that wait for space.
    pub space: Slots,
}

impl Tripped {
    fn is_any(self) -> bool {
        self.data | self.space != 0
    }
}

pub struct Endpoint<S> {
    pub id: Id,
    pub segment: S,
    size: u64,
    /// `[F12]` What the peer has acknowledged: the head of the sending ring.
    freed: u64,
    /// The tail of the sending ring, when last looked at.
    filled: u64,
    /// No byte follows `filled`.
    ended: bool,
    /// What is published in the receiving ring.
    placed: u64,
    /// The head of the receiving ring, when last looked at.
    read: u64,
    tripped: Tripped,
    /// Polls since there was news; `None`: it has armed its wires, and is looked at when it is noticed.
    pub quiet: Option<u32>,
}

impl<S: Segment> Endpoint<S> {
    /// Serves a segment from where its cursors are. They have been checked.
    pub fn new(id: Id, segment: S, cursors: Cursors) -> Endpoint<S> {
        Endpoint {
            id,
            size: LEVEL_SIZE[usize::from(segment.level())],
            segment,
            freed: cursors.freed,
            filled: cursors.freed,
            ended: false,
            placed: cursors.placed,
            read: cursors.placed,
            tripped: Tripped::default(),
            quiet: None,
        }
    }

    /// Reads the program's cursors, once each, and checks them. `true`: it has written, read or ended.
    pub fn look(&mut self) -> Result<bool, Hostile> {
        Ok(self.look_at_writer()? | self.look_at_reader()?)
    }

    fn look_at_writer(&mut self) -> Result<bool, Hostile> {
        let producer = &self.segment.sending().shared.producer;
        // The end is read before the tail: if the end is set, the tail is the last one.
        let ended = producer.closed.load(Ordering::Acquire) != 0;
        let filled = producer.tail.load(Ordering::Acquire);
        let possible = self.filled..=(self.freed + self.size).min(MAX_OFFSET);
        let after_end = self.ended && (filled != self.filled || !ended);
        if !possible.contains(&filled) || after_end {
            return Err(Hostile);
        }
        let news = filled != self.filled || ended != self.ended;
        (self.filled, self.ended) = (filled, ended);
        Ok(news)
    }

    fn look_at_reader(&mut self) -> Result<bool, Hostile> {
        let read = self
            .segment
            .receiving()
            .shared
            .consumer
            .head
            .load(Ordering::Acquire);
        if !(self.read..=self.placed).contains(&read) {
            return Err(Hostile);
        }
        let news = read != self.read;
        self.read = read;
        Ok(news)
    }

    /// Asks to be noticed at the next byte that the program writes, and when it has read `room` more. The
    /// caller looks again afterwards.
    pub fn arm(&self, room: u64) {
        let sending = self.segment.sending().shared;
        sending.wait.data.arm(OURS, NAME, self.filled + 1);
        let receiving = self.segment.receiving().shared;
        receiving
            .room
            .space
            .arm(OURS, NAME, self.read + room.min(self.size));
    }

    /// No longer asks.
    pub fn disarm(&self) {
        self.segment.sending().shared.wait.data.disarm(OURS);
        self.segment.receiving().shared.room.space.disarm(OURS);
    }

    pub fn filled(&self) -> u64 {
        self.filled
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn read(&self) -> u64 {
        self.read
    }

    /// `[F6]` The peer is bound.
    pub fn open(&self) -> Result<(), tail::TakenAway> {
        tail::open(&self.segment.receiving().shared.producer.tail)
    }

    pub fn is_frozen(&self) -> bool {
        Tail::read(&self.segment.receiving().shared.producer.tail).is_frozen()
    }

    /// `[F15]` Nobody serves it any more: its program fails over when it sees that.
    pub fn freeze(&self) {
        tail::freeze(&self.segment.receiving().shared.producer.tail);
    }

    /// `[F26]` Its program is dead: what it has written is all there is, as if it had said so itself, and
    /// nothing is placed any more.
    pub fn orphan(&mut self) -> Result<(), Hostile> {
        self.freeze();
        let producer = &self.segment.sending().shared.producer;
        producer.closed.store(1, Ordering::Release);
        self.look_at_writer()?;
        Ok(())
    }

    /// `[W3]` Copies bytes out of the sending ring. The sum is of the copy, whatever the program does with
    /// its ring meanwhile.
    #[inline]
    pub fn fetch(&self, offset: u64, into: &mut [u8], mut crc: Crc) -> Crc {
        let (ring, level) = (self.segment.sending(), self.segment.level());
        let (mut at, mut left) = (offset, into);
        while !left.is_empty() {
            let (place, length) = self.step(at, left.len());
            let (step, rest) = left.split_at_mut(length);
            ring.memory.drain(level, place, length, &mut &mut *step);
            crc = crc.over(step);
            at += length as u64;
            left = rest;
        }
        crc
    }

    /// `[W3]` Copies bytes into the receiving ring, beyond its tail.
    #[inline]
    pub fn place(&self, offset: u64, bytes: &[u8], mut crc: Crc) -> Crc {
        let (ring, level) = (self.segment.receiving(), self.segment.level());
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let (place, length) = self.step(at, left.len());
            let (step, rest) = left.split_at(length);
            ring.memory.fill(level, place, length, &mut &*step);
            crc = crc.over(step);
            at += length as u64;
            left = rest;
        }
        crc
    }

    /// Where an offset lies in its ring, and how many of the next bytes are copied in one go.
    fn step(&self, offset: u64, left: usize) -> (usize, usize) {
        let place = offset & (self.size - 1);
        let edge = (self.size - place) as usize;
        (place as usize, left.min(edge).min(STEP))
    }

    /// `[F11]` `[F13]` Shows the program what has arrived. `true`: its bell has to be rung, and no other call
    /// has asked for that before.
    #[inline]
    pub fn publish(&mut self, offset: u64, ended: bool) -> Result<bool, tail::TakenAway> {
        let shared = self.segment.receiving().shared;
        tail::publish(&shared.producer.tail, offset, ended)?;
        self.placed = offset;
        let slots = if ended {
            // As between two processes; the word is what counts.
            shared.hint_end()
        } else {
            shared.wait.data.trip(offset)
        };
        let asked = self.tripped.is_any();
        self.tripped.data |= slots;
        Ok(slots != 0 && !asked)
    }

    /// `[F12]` Gives space back to the program. `true` as for `publish`.
    #[inline]
    pub fn release(&mut self, offset: u64) -> bool {
        let shared = self.segment.sending().shared;
        self.freed = offset;
        publish(&shared.consumer.head, offset);
        let slots = shared.room.space.trip(offset);
        let asked = self.tripped.is_any();
        self.tripped.space |= slots;
        slots != 0 && !asked
    }

    /// Every sleeper shall look: something has happened beside the cursors.
    pub fn wake_all(&mut self) {
        self.tripped.data |= self.segment.receiving().shared.wait.data.trip_all();
        self.tripped.space |= self.segment.sending().shared.room.space.trip_all();
    }

    /// The wires to ring, once.
    pub fn take_tripped(&mut self) -> Tripped {
        core::mem::take(&mut self.tripped)
    }
}
