//! What a program does: it writes its bytes, closes, reads to the end, and leaves.

use super::kernel::{Item, Tip};
use super::property::Wrong;
use super::rules::{Scenario, Weakness};
use super::state::{Holder, Run, Side, Stage, Verdict, World};

impl World {
    pub fn write(&mut self, side: Side, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let all = end.written >= scenario.bytes[side as usize];
        let turn =
            scenario.first.is_none_or(|first| first == side) || self.has_heard(side, scenario);
        if !self.calls(side) || end.closed || all || !turn {
            return false;
        }
        let early = end.stage == Stage::Joining
            && side == Side::B
            && scenario.is_weak(Weakness::WriteBeforeOpen);
        let resuming =
            end.stage == Stage::Resending && scenario.is_weak(Weakness::WriteWhileResuming);
        match end.stage {
            Stage::Kernel => self.write_to_kernel(side),
            _ if end.stage == Stage::Linked || early || resuming => {
                self.write_to_ring(side, scenario)
            }
            // [F2], [F7], [F20]
            _ => false,
        }
    }

    /// All that the other side has to say, or that nothing more comes.
    fn has_heard(&self, side: Side, scenario: &Scenario) -> bool {
        let end = &self.ends[side as usize];
        end.read == scenario.bytes[side.other() as usize] || end.verdict != Verdict::Reading
    }

    fn write_to_kernel(&mut self, side: Side) -> bool {
        let end = self.end(side);
        let byte = end.written;
        end.written += 1;
        end.next += 1;
        end.spoke |= end.aborted;
        self.push(side, Item::Byte(byte));
        true
    }

    fn write_to_ring(&mut self, side: Side, scenario: &Scenario) -> bool {
        let epoch = self.ends[side as usize].epoch;
        let segment = self.segment(side, epoch);
        if segment.filled - segment.freed >= scenario.ring {
            return false;
        }
        segment.filled += 1;
        self.end(side).written += 1;
        true
    }

    /// No more bytes: FIN on the kernel, CLOSE on the link.
    pub fn shut(&mut self, side: Side, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let all = end.written == scenario.bytes[side as usize];
        let turn = scenario.first.is_none() || self.has_heard(side, scenario);
        if !self.calls(side) || end.closed || !all || !turn {
            return false;
        }
        match end.stage {
            Stage::Kernel => {}
            Stage::Linked => {
                self.segment(side, end.epoch).closed = true;
                if scenario.is_weak(Weakness::FinAtHalfClose) {
                    self.pipes[side as usize].tip = Tip::Fin;
                }
            }
            _ => return false,
        }
        self.end(side).closed = true;
        true
    }

    /// Reads from the ring; `look` reads from the kernel.
    pub fn read(&mut self, side: Side) -> bool {
        let end = self.ends[side as usize];
        let here = end.stage != Stage::Joining && end.read < self.tail(side).offset;
        if !self.calls(side) || end.verdict != Verdict::Reading || !here {
            return false;
        }
        self.read_ring(side, end.epoch, end.read);
        true
    }

    /// [F22] Tells the program of the end, when nothing can come before it.
    pub fn conclude(&mut self, side: Side, scenario: &Scenario) {
        let end = self.ends[side as usize];
        let tail = self.tail(side);
        let waits = self.calls(side) && end.verdict == Verdict::Reading;
        if !waits || end.read < tail.offset {
            return;
        }
        if tail.ended && end.read == tail.offset {
            self.tell_eof(side);
        } else if end.stage == Stage::Over {
            self.tell_error(side, scenario.hasty.is_some());
        }
    }

    fn read_ring(&mut self, side: Side, epoch: u8, byte: u8) {
        if self.segment(side, epoch).alien & 1 << byte != 0 {
            self.wrong = Some(Wrong::Misread);
        } else {
            self.give(side, byte);
        }
    }

    /// The program wants to close its socket, or has done so.
    fn wants_to_leave(&self, side: Side, scenario: &Scenario) -> bool {
        let end = &self.ends[side as usize];
        let answered = end.verdict != Verdict::Reading || scenario.hasty == Some(side);
        end.holder == Holder::Nicd || answered && (end.closed || end.stage == Stage::Over)
    }

    /// The program closes its socket, or nicd does so for it.
    pub fn exit(&mut self, side: Side, scenario: &Scenario) -> bool {
        if !self.acts(side) || !self.wants_to_leave(side, scenario) {
            return false;
        }
        match self.ends[side as usize].stage {
            // [F23] A side that has given up resets: FIN would look like an end.
            Stage::Over => {
                self.close_socket(side);
                if !scenario.is_weak(Weakness::FinAfterError) {
                    self.pipes[side as usize].tip = Tip::Broken;
                }
            }
            Stage::Kernel if self.has_read_all(side, scenario) => self.close_socket(side),
            Stage::Linked if !self.owes(side) || scenario.is_weak(Weakness::FinAtClose) => {
                self.close_socket(side);
            }
            Stage::Linked => return self.hand_over(side),
            // What must be sent again goes before FIN.
            _ => return false,
        }
        true
    }

    /// [F21] RESUME and the bytes that come twice: what is unread makes a reset of FIN.
    fn has_read_all(&self, side: Side, scenario: &Scenario) -> bool {
        let end = &self.ends[side as usize];
        let heard = end.heard || scenario.is_weak(Weakness::CloseUnheard);
        let pipe = &self.pipes[side.other() as usize];
        let no_more = pipe.len() == 0 && pipe.tip != Tip::Open;
        let skipped =
            end.at >= self.tail(side).offset || scenario.is_weak(Weakness::CloseUnskipped);
        heard && (skipped || no_more)
    }

    /// [F30] The peer's program makes no calls, and this side has waited long enough for its RESUME, or for room
    /// in the kernel. That nothing else takes so long is what the time is chosen for.
    pub fn linger(&mut self, side: Side, scenario: &Scenario) -> bool {
        let waits = match self.ends[side as usize].stage {
            Stage::Kernel => !self.has_read_all(side, scenario),
            Stage::Frozen | Stage::Resending => true,
            Stage::Joining | Stage::Linked | Stage::Over => false,
        };
        let stopped = self.ends[side.other() as usize].stopped;
        let on = !scenario.is_weak(Weakness::NoLinger);
        let leaves = self.acts(side) && self.wants_to_leave(side, scenario);
        if !on || !leaves || !waits || !stopped {
            return false;
        }
        // [F20] If bytes are still to be sent, FIN breaks the promise, and is no end.
        self.close_socket(side);
        true
    }

    /// [F24] nicd gets a duplicate of the socket; one that is stopped gets it later.
    fn hand_over(&mut self, side: Side) -> bool {
        let epoch = self.ends[side as usize].epoch;
        let runs = matches!(self.engines[side as usize].run, Run::Up | Run::Stopped);
        let serves = runs && self.point(side, epoch).attached;
        if self.ends[side as usize].holder == Holder::Nicd || !serves {
            return false;
        }
        self.end(side).holder = Holder::Nicd;
        true
    }
}
