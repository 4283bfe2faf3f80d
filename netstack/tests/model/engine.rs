//! What an engine does for a promotion. Every step may be its last for a long time: what it goes on
//! with later, it has looked at before.

use super::rules::{Scenario, Weakness};
use super::state::{Holder, Run, Side, Stage, Wire, World};

impl World {
    /// [F6] A's engine hears AGREE, B's the packet OPEN. `true`: the step can be taken.
    pub fn open(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let known = |late| first_known(epoch, scenario.is_weak(late))..epoch as usize;
        let bound = match side {
            Side::A => self.talk[known(Weakness::LateAgree)]
                .iter()
                .any(|talk| talk.agree),
            Side::B => {
                let wires = &self.wires[Side::A as usize][known(Weakness::LateOpen)];
                wires.iter().any(|wire| wire.open) && !self.cut
            }
        };
        let tail = self.segment(side, epoch).tail;
        if !bound || !self.serves(side, epoch) || tail.open || tail.frozen {
            return false;
        }
        self.segment(side, epoch).tail.open = true;
        self.wire(side, epoch).open = true;
        true
    }

    /// An engine that runs says at once what it has to say. That it is stopped before is the same as that
    /// the packet is lost, as long as nobody counts on its arrival: see `Step::is_sure`.
    pub fn pump(&mut self, side: Side, epoch: u8, scenario: &Scenario) {
        if !self.is_open(side, epoch) {
            return;
        }
        let segment = *self.segment(side, epoch);
        let point = *self.point(side, epoch);
        // [F26] A dead program that had frozen its word may have gone on by the kernel.
        let moved = segment.tail.frozen && !scenario.is_weak(Weakness::CloseForMoved);
        let died = self.ends[side as usize].crashed && !moved;
        let wire = self.wire(side, epoch);
        wire.sent = segment.filled;
        // [F13], [F26] CLOSE, with the final offset.
        wire.close |= segment.closed || died;
        // [F11] Also of a frozen word: what it says stays true.
        wire.ack = segment.tail.offset;
        wire.ack_end = segment.tail.ended;
        match scenario.weakness {
            Some(Weakness::AckEndEarly) => wire.ack_end |= point.closing,
            Some(Weakness::AckBeforePublish) => wire.ack = reach(wire.ack, point.islands),
            Some(Weakness::FreeOnSack) => {
                wire.sack = (u8::BITS - point.islands.leading_zeros()) as u8;
            }
            _ => {}
        }
    }

    fn serves(&mut self, side: Side, epoch: u8) -> bool {
        self.up(side) && self.point(side, epoch).attached
    }

    fn is_open(&mut self, side: Side, epoch: u8) -> bool {
        self.serves(side, epoch) && self.segment(side, epoch).tail.open
    }

    /// Something of the peer's may arrive, and make a difference: what comes for a frozen word can never be
    /// published, and need not be followed. What came before it was frozen is.
    fn hears(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let frozen =
            self.segment(side, epoch).tail.frozen && !scenario.is_weak(Weakness::NoFrozenBit);
        self.is_open(side, epoch) && !self.cut && !frozen
    }

    /// [F29] What the peer's engine has sent of this promotion, and of no other.
    fn heard(&self, side: Side, epoch: u8, scenario: &Scenario) -> Wire {
        let known = first_known(epoch, scenario.is_weak(Weakness::LateBytes))..epoch as usize;
        let wires = self.wires[side.other() as usize][known].iter();
        wires.fold(Wire::default(), |all, wire| Wire {
            open: all.open | wire.open,
            sent: all.sent.max(wire.sent),
            close: all.close | wire.close,
            ack: all.ack.max(wire.ack),
            ack_end: all.ack_end | wire.ack_end,
            sack: all.sack.max(wire.sack),
        })
    }

    /// [C4] A byte is written into the ring, within the credit, in order or not. [F26] For a program that
    /// is gone nothing is.
    pub fn place(&mut self, side: Side, epoch: u8, byte: u8, scenario: &Scenario) -> bool {
        let tail = self.segment(side, epoch).tail.offset;
        let begin = self.segment(side.other(), epoch).begin;
        let sent = self.heard(side, epoch, scenario).sent;
        let credit = self.ends[side as usize].read + scenario.ring;
        let fits = byte >= tail.max(begin) && byte < sent && byte < credit;
        let wanted = self.ends[side as usize].holder == Holder::Program;
        if !self.hears(side, epoch, scenario)
            || !wanted
            || !fits
            || self.point(side, epoch).islands & 1 << byte != 0
        {
            return false;
        }
        self.point(side, epoch).islands |= 1 << byte;
        true
    }

    /// [F29] Left out: a packet of another connection, for the byte that comes next.
    pub fn place_alien(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let byte = self.segment(side, epoch).tail.offset;
        if !self.hears(side, epoch, scenario) || self.point(side, epoch).islands & 1 << byte != 0 {
            return false;
        }
        self.point(side, epoch).islands |= 1 << byte;
        self.segment(side, epoch).alien |= 1 << byte;
        true
    }

    /// [F11] The tail goes on over what is placed without a gap, and over the end.
    pub fn publish(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let point = *self.point(side, epoch);
        let old = self.segment(side, epoch).tail;
        let mut new = old;
        new.offset = reach(new.offset, point.islands);
        let last = self.segment(side.other(), epoch).filled;
        let complete = new.offset == last || scenario.is_weak(Weakness::CloseWithoutFinal);
        new.ended |= point.closing && complete;
        let frozen = old.frozen && !scenario.is_weak(Weakness::NoFrozenBit);
        if !self.is_open(side, epoch) || new == old || frozen {
            return false;
        }
        self.segment(side, epoch).tail = new;
        true
    }

    /// [F12] An acknowledgement arrives: its bytes are not needed any more.
    pub fn free(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let wire = self.heard(side, epoch, scenario);
        let old = *self.segment(side, epoch);
        let mut new = old;
        new.freed = new.freed.max(wire.ack).max(wire.sack);
        new.end_acked |= wire.ack_end;
        // Once RESUME is written nobody asks any more.
        let asked = matches!(
            self.ends[side as usize].stage,
            Stage::Linked | Stage::Frozen
        );
        if !self.is_open(side, epoch) || self.cut || !asked || new == old {
            return false;
        }
        *self.segment(side, epoch) = new;
        true
    }

    pub fn take_close(&mut self, side: Side, epoch: u8, scenario: &Scenario) -> bool {
        let close = self.heard(side, epoch, scenario).close;
        if !self.hears(side, epoch, scenario) || !close || self.point(side, epoch).closing {
            return false;
        }
        self.point(side, epoch).closing = true;
        true
    }

    /// [F27] A new engine finds the segments of the old one. It freezes them, or it goes on with those that
    /// are not frozen: what it must know is in them.
    pub fn restart(&mut self, side: Side, adopts: bool) -> bool {
        let engine = &mut self.engines[side as usize];
        if engine.run != Run::Crashed {
            return false;
        }
        engine.run = Run::Up;
        for epoch in 1..=self.ends[side as usize].epoch {
            let tail = &mut self.segment(side, epoch).tail;
            let free = adopts && !tail.frozen;
            tail.frozen = !free;
            self.point(side, epoch).attached = free;
        }
        true
    }
}

/// The first promotion, from 0, whose packets are taken for ones of this.
fn first_known(epoch: u8, is_weak: bool) -> usize {
    match is_weak {
        true => 0,
        false => epoch as usize - 1,
    }
}

/// How far bytes lie without a gap, from an offset on.
fn reach(mut offset: u8, islands: u8) -> u8 {
    while islands & 1 << offset != 0 {
        offset += 1;
    }
    offset
}
