//! The block of one promotion, as the engine sees it: the program is the offering side.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firmware::Half;
use netstack::failover;
use netstack::ring::mark::LEVEL_SIZE;
use netstack::ring::{Memory, Tail, tail};
use netstack::shared_memory;

use crate::pair::{Pair, PairSegment};
use crate::rings::{CLOSED, Rings};
use shm::layout::{Block as Words, CLAIMER, CONFIRMED, NIC_LEVEL, OFFERER, RELEASED, SideLine};
use shm::order;

/// A block of a program's segment. `[F4]` It serves one promotion.
#[derive(Clone)]
pub struct Block {
    pub segment: Arc<PairSegment>,
    pub conn: u32,
    sending: Rings,
    receiving: Rings,
}

impl Block {
    pub fn of(segment: Arc<PairSegment>, conn: u32) -> Block {
        Block {
            sending: Rings::of(&segment, conn, OFFERER),
            receiving: Rings::of(&segment, conn, CLAIMER),
            segment,
            conn,
        }
    }

    /// One that nobody else has, with memory for both rings.
    pub fn allocate(pair: &Pair) -> Option<Block> {
        let (segment, conn) = pair.allocate()?;
        let block = Block::of(segment, conn);
        let populated = [CLAIMER, OFFERER]
            .iter()
            .all(|direction| block.segment.populate(NIC_LEVEL, conn, *direction));
        if !populated {
            block.was_not_claimed();
            return None;
        }
        Some(block)
    }

    fn words(&self) -> &Words {
        // SAFETY: the segment has this block, aligned, and is mapped as long as we have it.
        unsafe { shared_memory::at(self.segment.block(self.conn).cast()) }
    }

    /// What the program says.
    pub fn theirs(&self) -> &SideLine {
        &self.words().sides[OFFERER]
    }

    /// What we say.
    pub fn ours(&self) -> &SideLine {
        &self.words().sides[CLAIMER]
    }

    /// `[F31]` We shall go on with the connection if the program is dead.
    pub fn is_entrusted(&self) -> bool {
        self.theirs().trust.is_given()
    }

    /// We have a duplicate of the socket, or not any more.
    pub fn has_socket(&self, has: bool) {
        let word = &self.ours().trust.given;
        word.store(has.into(), Ordering::Release);
    }

    /// In the name of a program that is dead: no byte follows those that are written.
    pub fn say_closed(&self) {
        let producer = &self.words().directions[OFFERER].producer;
        producer.closed.store(CLOSED, Ordering::Release);
    }

    /// The program will not look at it again.
    pub fn is_released(&self) -> bool {
        self.theirs().stage.load(Ordering::Acquire) == RELEASED
    }

    /// The program has mapped it, and looks at it.
    pub fn is_confirmed(&self) -> bool {
        self.theirs().stage.load(Ordering::Acquire) == CONFIRMED
    }

    /// The peer's program looks at its own.
    pub fn confirm(&self) {
        self.ours().stage.store(CONFIRMED, Ordering::Release);
    }

    /// Where the program's own engine shall find the connection, before it is told to look.
    pub fn tell_place(&self, name: u64, route: Option<u32>) {
        let promotion = &self.ours().promotion;
        promotion.name.store(name, Ordering::Relaxed);
        let route = route.map_or(0, |number| u64::from(number) + 1);
        promotion.route.store(route, Ordering::Relaxed);
    }

    /// The program has never heard of it.
    pub fn was_not_claimed(&self) {
        self.theirs().stage.store(RELEASED, Ordering::Release);
        self.release();
    }

    /// The engine has let go of it, and we do too.
    pub fn release(&self) {
        // A program that has not let go of it may still read there.
        if self.is_released() {
            for direction in [CLAIMER, OFFERER] {
                let level = NIC_LEVEL.into();
                self.segment.give_back(self.conn, direction, level);
            }
        }
        self.ours().stage.store(RELEASED, Ordering::Release);
        self.segment.released(self.conn, CLAIMER);
    }

    /// Wakes everybody of the program who waits for bytes, or for space.
    pub fn wake(&self, pair: &Pair) {
        let directions = &self.words().directions;
        let wires = [
            &directions[CLAIMER].wait.data,
            &directions[OFFERER].room.space,
        ];
        for wire in wires {
            let mut slots = wire.trip_all();
            wire.leave_stamp(order::stamp(false).0);
            while slots != 0 {
                let name = wire.name(slots.trailing_zeros() as usize);
                pair.ring(&self.segment, OFFERER, self.conn, name);
                slots &= slots - 1;
            }
        }
    }

    /// How far the program has read.
    pub fn read(&self) -> u64 {
        let consumer = &self.words().directions[CLAIMER].consumer;
        consumer.head.load(Ordering::Acquire)
    }

    /// Asks, in the name of nobody, to hear of the next byte after `offset`.
    pub fn watch(&self, offset: u64) {
        let wire = &self.words().directions[CLAIMER].wait.data;
        wire.arm(0, 0, offset + 1);
    }

    /// Bytes that the program has written, from `offset` on, at most up to the ring's edge.
    pub fn written(&self, offset: u64, end: u64) -> Vec<u8> {
        let size = LEVEL_SIZE[usize::from(NIC_LEVEL)];
        let place = offset & (size - 1);
        let length = end.saturating_sub(offset).min(size - place) as usize;
        let mut bytes = vec![0; length];
        let to = &mut &mut bytes[..];
        self.sending.drain(NIC_LEVEL, place as usize, length, to);
        bytes
    }
}

impl firmware::Segment for Block {
    type Memory = Rings;

    fn level(&self) -> u8 {
        NIC_LEVEL
    }

    fn sending(&self) -> Half<'_, Rings> {
        Half {
            shared: &self.words().directions[OFFERER],
            memory: &self.sending,
        }
    }

    fn receiving(&self) -> Half<'_, Rings> {
        Half {
            shared: &self.words().directions[CLAIMER],
            memory: &self.receiving,
        }
    }
}

impl failover::Segment for Block {
    fn tail(&self) -> Tail {
        Tail::read(&self.words().directions[CLAIMER].producer.tail)
    }

    fn freeze(&self) -> Tail {
        tail::freeze(&self.words().directions[CLAIMER].producer.tail)
    }

    fn freed(&self) -> u64 {
        let consumer = &self.words().directions[OFFERER].consumer;
        consumer.head.load(Ordering::Acquire)
    }

    fn filled(&self) -> u64 {
        let producer = &self.words().directions[OFFERER].producer;
        producer.tail.load(Ordering::Acquire)
    }
}
