//! What must be true in every state, after every step, and in every state in which nothing goes on.

use super::rules::Scenario;
use super::state::{EPOCHS, Holder, SIDES, Side, Verdict, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A byte lost, repeated, out of order, or not of this stream.
    Misread,
    /// A RESUME was about to be given to a program.
    RecordAsData,
    /// EOF before all bytes, or without an end.
    FalseEof,
    /// An error though nothing had failed.
    NeedlessError,
    /// Ring space was freed for a byte that is not in the peer's segment.
    FreedUnplaced,
    /// A byte was acknowledged that is not in the segment.
    AckedUnplaced,
    /// A frozen word has changed.
    Thawed,
    /// The peer asks for bytes that we do not have any more, or never had.
    Unresendable,
    /// Plain bytes where only RESUME can come.
    Stray,
    /// Nobody does anything any more, and somebody still waits.
    Stuck,
    /// Steps that lead back to where they began.
    Circle,
}

/// Properties 1 to 3 and 5: of a step from one state to the next.
pub fn check(before: &World, after: &World) -> Option<Wrong> {
    if after.wrong.is_some() {
        return after.wrong;
    }
    for side in SIDES {
        for epoch in 0..EPOCHS {
            let old = before.segments[side as usize][epoch].tail;
            let new = after.segments[side as usize][epoch].tail;
            if old.frozen && old != new {
                return Some(Wrong::Thawed);
            }
            if after.wires[side as usize][epoch].ack > new.offset {
                return Some(Wrong::AckedUnplaced);
            }
            if freed_unplaced(after, side, epoch) {
                return Some(Wrong::FreedUnplaced);
            }
        }
    }
    None
}

fn freed_unplaced(world: &World, side: Side, epoch: usize) -> bool {
    let sender = &world.segments[side as usize][epoch];
    let receiver = &world.segments[side.other() as usize][epoch];
    sender.freed > sender.begin && sender.freed > receiver.tail.offset
}

/// Property 4: of a state in which nothing goes on by itself. Everybody has got an answer and has left, but for
/// a program that makes no calls, and one that waits for what only that can say, as it would on kernel TCP.
pub fn check_rest(world: &World, scenario: &Scenario) -> Option<Wrong> {
    let rests = |side: Side| {
        let end = &world.ends[side as usize];
        let reads = end.holder == Holder::Program && end.verdict == Verdict::Reading;
        let waits =
            reads && scenario.hasty != Some(side) && world.ends[side.other() as usize].stopped;
        end.holder == Holder::Gone || end.stopped || waits
    };
    (!SIDES.into_iter().all(rests)).then_some(Wrong::Stuck)
}

impl World {
    /// The reader is given the next byte.
    pub fn give(&mut self, side: Side, byte: u8) {
        let end = self.end(side);
        if byte != end.read {
            self.wrong = Some(Wrong::Misread);
            return;
        }
        end.read += 1;
        // [F18] A byte of the peer's: it is not in a promotion.
        end.aborted = false;
    }

    /// Property 2: all that was written before an end, which was orderly, or the death of the process.
    pub fn tell_eof(&mut self, side: Side) {
        let peer = self.ends[side.other() as usize];
        self.end(side).verdict = Verdict::Eof;
        let all = self.ends[side as usize].read == peer.written;
        if !all || !(peer.closed || peer.crashed) {
            self.wrong = Some(Wrong::FalseEof);
        }
    }

    pub fn tell_error(&mut self, side: Side, hasty: bool) {
        self.end(side).verdict = Verdict::Error;
        if self.is_calm(side) && !hasty {
            self.wrong = Some(Wrong::NeedlessError);
        }
    }

    /// [F31] Only the peer's program has died, and nicd had its socket: all that it wrote comes, and its end. Unless
    /// something was written to it, which may have drawn a reset, as in the kernel.
    fn is_entrusted(&self, side: Side) -> bool {
        let [own, peer] = [side, side.other()].map(|side| self.ends[side as usize]);
        peer.entrusted && own.written == 0
    }

    /// Nothing has failed, and nobody need doubt: only B does, when A has given up what B agreed to, and
    /// has said nothing since.
    fn is_calm(&self, side: Side) -> bool {
        let agreed = self.ends[Side::B as usize].epoch as usize;
        let doubt = agreed > 0 && {
            let segment = &self.segments[Side::A as usize][agreed - 1];
            let given_up = segment.tail.frozen && !segment.tail.open;
            given_up && segment.begin == self.ends[Side::A as usize].written
        };
        (self.faults == 0 || self.faults == 1 && self.is_entrusted(side)) && !doubt
    }
}
