//! What can go wrong, at every step.

use super::rules::{Scenario, Weakness};
use super::state::{EPOCHS, Endpoint, Holder, Run, Side, Stage, World};

impl World {
    /// The kernel closes its socket, the segment stays with the engine.
    pub fn crash_program(&mut self, side: Side) -> bool {
        if self.ends[side as usize].holder != Holder::Program {
            return false;
        }
        self.end(side).crashed = true;
        self.close_socket(side);
        true
    }

    /// [F31] The same, but nicd has a duplicate, and goes on as if the program had closed.
    pub fn crash_entrusted(&mut self, side: Side, scenario: &Scenario) -> bool {
        let end = self.ends[side as usize];
        let leaves = match end.stage {
            Stage::Linked | Stage::Frozen | Stage::Resending => self.tail(side).open,
            Stage::Kernel => end.epoch > 0 && !end.heard,
            Stage::Joining | Stage::Over => false,
        };
        if end.holder != Holder::Program || !leaves || !self.point(side, end.epoch).has_socket {
            return false;
        }
        if end.stage == Stage::Linked {
            self.segment(side, end.epoch).closed = true;
        }
        let end = self.end(side);
        (end.crashed, end.entrusted, end.closed) = (true, true, true);
        (end.stopped, end.holder) = (false, Holder::Nicd);
        if scenario.is_weak(Weakness::NobodyGoesOn) {
            self.close_socket(side);
        }
        true
    }

    /// The engine forgets everything, and its sockets are closed.
    pub fn crash_engine(&mut self, side: Side) -> bool {
        let engine = &mut self.engines[side as usize];
        if !matches!(engine.run, Run::Up | Run::Stopped) {
            return false;
        }
        engine.run = Run::Crashed;
        engine.points = [Endpoint::default(); EPOCHS];
        if self.ends[side as usize].holder == Holder::Nicd {
            self.close_socket(side);
        }
        true
    }

    /// Its program is stopped, or busy with something else; its engine is not.
    pub fn stop_program(&mut self, side: Side) -> bool {
        let calls = self.calls(side);
        self.end(side).stopped |= calls;
        calls
    }

    pub fn wake_program(&mut self, side: Side) -> bool {
        std::mem::take(&mut self.end(side).stopped)
    }

    pub fn stop_engine(&mut self, side: Side) -> bool {
        let run = &mut self.engines[side as usize].run;
        let was_up = *run == Run::Up;
        if was_up {
            *run = Run::Stopped;
        }
        was_up
    }

    pub fn wake_engine(&mut self, side: Side) -> bool {
        let run = &mut self.engines[side as usize].run;
        let was_stopped = *run == Run::Stopped;
        if was_stopped {
            *run = Run::Up;
        }
        was_stopped
    }

    /// [F28] A stopped nicd that holds sockets of programs that are gone does not stay so.
    pub fn watchdog(&mut self, side: Side, scenario: &Scenario) -> bool {
        let holds = self.ends[side as usize].holder == Holder::Nicd;
        let stopped = self.engines[side as usize].run == Run::Stopped;
        let on = !scenario.is_weak(Weakness::NoWatchdog);
        on && holds && stopped && self.crash_engine(side)
    }

    /// The host is no more. Of what was on its way by kernel TCP only so much arrives; then the other
    /// kernel gives up.
    pub fn die(&mut self, side: Side, arrives: u8) -> bool {
        if self.engines[side as usize].run == Run::Dead || arrives > self.pipes[side as usize].len()
        {
            return false;
        }
        let engine = &mut self.engines[side as usize];
        engine.run = Run::Dead;
        engine.points = [Endpoint::default(); EPOCHS];
        self.end(side).crashed |= self.ends[side as usize].holder != Holder::Gone;
        self.leave(side);
        self.pipes[side as usize].cut_to(arrives);
        true
    }

    /// The link carries nothing any more; kernel TCP, by another way, goes on.
    pub fn cut_link(&mut self) -> bool {
        !std::mem::replace(&mut self.cut, true)
    }
}
