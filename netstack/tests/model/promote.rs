//! How the two libraries agree on a promotion, or do not.

use super::rules::{Scenario, Weakness};
use super::state::{End, Endpoint, Segment, Side, Stage, Verdict, World};

impl World {
    /// Nothing is under way between the carriers, and the streams can still be promoted.
    fn can_join(&self, side: Side) -> bool {
        let end = &self.ends[side as usize];
        let drained = end.at.min(end.read) >= self.tail(side).offset;
        let rests = end.stage == Stage::Kernel && end.heard && drained;
        let lives = self.calls(side) && end.verdict == Verdict::Reading;
        rests && lives && !end.closed && self.up(side)
    }

    /// [F4] A new segment, with a new word.
    fn join(&mut self, side: Side, epoch: u8) {
        let end = self.end(side);
        end.epoch = epoch;
        end.stage = Stage::Joining;
        end.heard = false;
        end.aborted = false;
        let End { written, read, .. } = *end;
        let mut segment = Segment {
            begin: written,
            freed: written,
            filled: written,
            ..Segment::default()
        };
        segment.tail.offset = read;
        *self.segment(side, epoch) = segment;
        *self.point(side, epoch) = Endpoint {
            attached: true,
            has_socket: true,
            ..Endpoint::default()
        };
        self.wire(side, epoch).sent = written;
        self.wire(side, epoch).ack = read;
    }

    /// [F1], [F2], [F10] A proposes the next epoch, with the offsets at which it stands.
    pub fn prepare(&mut self, scenario: &Scenario) -> bool {
        let end = self.ends[Side::A as usize];
        if !self.can_join(Side::A) || end.epoch >= scenario.epochs {
            return false;
        }
        self.join(Side::A, end.epoch + 1);
        self.talk[end.epoch as usize].prepare = true;
        true
    }

    /// [F3] B agrees if it stands where A stood.
    pub fn agree(&mut self, epoch: u8, scenario: &Scenario) -> bool {
        let end = self.ends[Side::B as usize];
        let proposed = *self.segment(Side::A, epoch);
        // The word may have gone on since; not while B has not agreed.
        let same = end.written == proposed.tail.offset && end.read == proposed.begin;
        let same = same || scenario.is_weak(Weakness::AgreeAnywhere);
        let talk = self.talk[epoch as usize - 1];
        let new = epoch > end.epoch || scenario.is_weak(Weakness::LatePrepare);
        if !talk.prepare || !self.can_join(Side::B) || !new || !same {
            return false;
        }
        self.join(Side::B, epoch);
        self.talk[epoch as usize - 1].agree = true;
        true
    }

    /// [F8] A goes on by the kernel as if nothing had been.
    pub fn abort(&mut self, scenario: &Scenario) -> bool {
        let end = self.ends[Side::A as usize];
        let joining = end.stage == Stage::Joining && !self.tail(Side::A).open;
        if !self.calls(Side::A) || !joining {
            return false;
        }
        if !scenario.is_weak(Weakness::AbortWithoutFreeze) {
            self.freeze(Side::A);
        }
        let end = self.end(Side::A);
        end.stage = Stage::Kernel;
        end.heard = true;
        end.aborted = true;
        end.spoke = false;
        true
    }
}
