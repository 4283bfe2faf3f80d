//! How the library of a side goes back to the kernel, or its nicd once the program has closed; and what it
//! makes of what the kernel brings.

use super::kernel::{Item, Resume, Tip};
use super::property::Wrong;
use super::rules::{Scenario, Weakness};
use super::state::{Holder, Side, Stage, Verdict, World};

impl World {
    /// What a side does as soon as it can, for it changes nothing for the others.
    pub fn catch_up(&mut self, side: Side, scenario: &Scenario) {
        let end = self.ends[side as usize];
        // [F7] OPEN in the word.
        if self.calls(side) && end.stage == Stage::Joining && self.tail(side).open {
            self.end(side).stage = Stage::Linked;
        }
        // [F25] On the kernel the end of the stream is FIN, once everything is there.
        let pipe = &mut self.pipes[side as usize];
        if end.stage == Stage::Kernel
            && end.closed
            && pipe.tip == Tip::Open
            && end.holder != Holder::Gone
        {
            pipe.tip = Tip::Fin;
        }
        while self.skips(side, scenario) {
            self.pop(side);
            self.end(side).at += 1;
        }
        self.conclude(side, scenario);
    }

    /// [F19] The next byte from the kernel is one that the ring had.
    fn skips(&self, side: Side, scenario: &Scenario) -> bool {
        let end = &self.ends[side as usize];
        let carries =
            matches!(end.stage, Stage::Kernel | Stage::Resending) && end.heard && self.acts(side);
        let byte = Some(Item::Byte(end.at));
        let again = end.at < self.tail(side).offset && !scenario.is_weak(Weakness::NoSkip);
        carries && again && self.pipes[side.other() as usize].front() == byte
    }

    pub fn freeze(&mut self, side: Side) {
        let epoch = self.ends[side as usize].epoch;
        self.segment(side, epoch).tail.frozen = true;
    }

    /// Bytes or the end are on their way and not acknowledged.
    pub fn owes(&self, side: Side) -> bool {
        let end = &self.ends[side as usize];
        let segment = &self.segments[side as usize][end.epoch as usize - 1];
        segment.freed < segment.filled || segment.closed && !segment.end_acked
    }

    /// [F15] A deadline has passed, or the engine is seen to be gone: freeze the word.
    pub fn suspect(&mut self, side: Side, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let late = !scenario.is_weak(Weakness::NoDeadline);
        let reason = match end.stage {
            Stage::Linked => {
                let gone = !self.engines[side as usize].points[end.epoch as usize - 1].attached;
                late && self.owes(side) || gone || self.tail(side).frozen
            }
            // [F9]
            Stage::Joining => side == Side::B && !self.tail(side).open,
            _ => false,
        };
        let waits = end.holder == Holder::Nicd && scenario.is_weak(Weakness::NicdOnlyWaits);
        if !self.acts(side) || !reason || waits {
            return false;
        }
        self.freeze(side);
        self.end(side).stage = Stage::Frozen;
        true
    }

    /// [F16] The record is written, and nobody is waited for: the peer knows itself what it has.
    pub fn resume(&mut self, side: Side, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        if !self.acts(side) || end.stage != Stage::Frozen {
            return false;
        }
        let freed = self.segment(side, end.epoch).freed;
        let from = match scenario.weakness {
            Some(Weakness::ResendNothing) => end.written,
            _ if end.heard => end.next,
            _ => freed,
        };
        self.push_resume(side, from);
        let end = self.end(side);
        end.next = from;
        end.stage = Stage::Resending;
        self.settle(side);
        true
    }

    fn push_resume(&mut self, side: Side, from: u8) {
        let record = Resume {
            epoch: self.ends[side as usize].epoch,
            received: self.tail(side).offset,
            from,
            written: self.ends[side as usize].written,
        };
        self.push(side, Item::Resume(record));
    }

    /// [F19] The peer's record: which byte follows, and from where it wants ours.
    fn hear(&mut self, side: Side, record: Resume) {
        let tail = self.tail(side).offset;
        let end = self.end(side);
        end.heard = true;
        end.at = record.from;
        end.promised = record.written;
        if end.stage == Stage::Frozen {
            end.next = record.received;
        }
        let epoch = end.epoch;
        let segment = *self.segment(side, epoch);
        let ours = segment.freed <= record.received && record.received <= segment.filled;
        let theirs = record.from <= tail && tail <= record.written;
        if !ours || !theirs {
            self.wrong = Some(Wrong::Unresendable);
        }
    }

    /// One byte that the peer lacks.
    pub fn resend(&mut self, side: Side) -> bool {
        let end = self.ends[side as usize];
        if !self.acts(side) || end.stage != Stage::Resending {
            return false;
        }
        self.push(side, Item::Byte(end.next));
        self.end(side).next += 1;
        self.settle(side);
        true
    }

    fn settle(&mut self, side: Side) {
        let end = self.end(side);
        if end.stage == Stage::Resending && end.next == end.written {
            end.stage = Stage::Kernel;
        }
    }

    /// Looks at the kernel socket.
    pub fn look(&mut self, side: Side, scenario: &Scenario) -> bool {
        if !self.acts(side) || matches!(self.ends[side as usize].stage, Stage::Frozen | Stage::Over)
        {
            return false;
        }
        let pipe = self.pipes[side.other() as usize];
        match pipe.front() {
            Some(Item::Byte(byte)) => self.look_at_byte(side, byte, scenario),
            Some(Item::Resume(record)) => self.look_at_record(side, record, scenario),
            None if pipe.tip != Tip::Open => self.look_at_tip(side, pipe.tip, scenario),
            None => false,
        }
    }

    fn pop(&mut self, side: Side) {
        self.pipes[side.other() as usize].pop();
    }

    fn look_at_byte(&mut self, side: Side, byte: u8, scenario: &Scenario) -> bool {
        let open = self.tail(side).open;
        let end = self.ends[side as usize];
        match end.stage {
            Stage::Kernel | Stage::Resending if end.heard => {
                return self.take_byte(side, byte);
            }
            // [F8] A gives up before it reads on.
            Stage::Joining if side == Side::A => return false,
            _ if scenario.is_weak(Weakness::NoTokenCheck) => {
                let record = Resume {
                    epoch: end.epoch,
                    received: end.written,
                    from: end.read,
                    written: end.read,
                };
                return self.look_at_record(side, record, scenario);
            }
            // [F17] Plain bytes: A has given up. B has written nothing meanwhile.
            Stage::Joining if !open => {
                self.freeze(side);
                let end = self.end(side);
                end.stage = Stage::Kernel;
                end.heard = true;
            }
            Stage::Kernel | Stage::Resending if !open => self.end(side).heard = true,
            _ => self.wrong = Some(Wrong::Stray),
        }
        true
    }

    /// [F21] The ring first.
    fn take_byte(&mut self, side: Side, byte: u8) -> bool {
        let tail = self.tail(side).offset;
        if self.ends[side as usize].read < tail {
            return false;
        }
        self.end(side).at += 1;
        self.pop(side);
        self.give(side, byte);
        true
    }

    fn look_at_record(&mut self, side: Side, record: Resume, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let stale = record.epoch < end.epoch && !scenario.is_weak(Weakness::NoEpochCheck);
        let forget = scenario.is_weak(Weakness::ForgetAborted);
        self.pop(side);
        match end.stage {
            // [F17]
            _ if stale => {}
            Stage::Joining | Stage::Linked => {
                self.freeze(side);
                self.end(side).stage = Stage::Frozen;
                self.hear(side, record);
            }
            Stage::Kernel | Stage::Resending if !end.heard => self.hear(side, record),
            Stage::Kernel if end.aborted && !forget => self.answer(side, record),
            _ => self.wrong = Some(Wrong::RecordAsData),
        }
        true
    }

    /// [F18] The peer had agreed to what we gave up. Plain bytes, or FIN, were an answer; else it gets one.
    fn answer(&mut self, side: Side, record: Resume) {
        let end = self.ends[side as usize];
        if !end.spoke && self.pipes[side as usize].tip == Tip::Open {
            self.push_resume(side, end.written);
        }
        let end = self.end(side);
        end.aborted = false;
        end.promised = record.written;
    }

    fn look_at_tip(&mut self, side: Side, tip: Tip, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let drained = end.at.min(end.read) >= self.tail(side).offset;
        match end.stage {
            // [F22] The peer will not resume, or will not keep its promise.
            Stage::Kernel | Stage::Resending if tip == Tip::Broken || !end.heard => {
                self.end(side).stage = Stage::Over;
            }
            Stage::Kernel | Stage::Resending if end.verdict != Verdict::Reading => return false,
            Stage::Kernel | Stage::Resending => {
                let kept = end.at >= end.promised || scenario.is_weak(Weakness::ForgetPromise);
                match (kept, drained) {
                    (true, true) => self.tell_eof(side),
                    (true, false) => return false,
                    (false, _) => self.end(side).stage = Stage::Over,
                }
            }
            Stage::Linked if scenario.is_weak(Weakness::FinMeansEof) => {
                if tip == Tip::Broken || !drained || end.verdict != Verdict::Reading {
                    return false;
                }
                self.tell_eof(side);
            }
            _ => return false,
        }
        true
    }

    /// [F23] FIN or a reset was seen, and the link does not say in time how the stream ends.
    pub fn give_up(&mut self, side: Side, scenario: &Scenario) -> bool {
        let pipe = self.pipes[side.other() as usize];
        let asked = pipe.len() == 0 && pipe.tip != Tip::Open;
        let tail = self.tail(side);
        let stage = self.ends[side as usize].stage;
        let waits = stage == Stage::Linked || stage == Stage::Joining && side == Side::B;
        if !self.acts(side)
            || !asked
            || !waits
            || tail.ended
            || scenario.is_weak(Weakness::NoGiveUp)
        {
            return false;
        }
        self.freeze(side);
        self.end(side).stage = Stage::Over;
        true
    }
}
