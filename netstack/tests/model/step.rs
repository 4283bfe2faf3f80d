//! All steps, each by its name.

use super::rules::{Scenario, Weakness};
use super::state::{EPOCHS, Holder, SIDES, Side, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    // Programs.
    Write(Side),
    Shut(Side),
    Read(Side),
    Exit(Side),
    // Libraries.
    Prepare,
    Agree { epoch: u8 },
    Abort,
    Suspect(Side),
    Resume(Side),
    Resend(Side),
    Look(Side),
    GiveUp(Side),
    // Engines.
    Open(Side, u8),
    Place(Side, u8, u8),
    PlaceAlien(Side, u8),
    Publish(Side, u8),
    Free(Side, u8),
    TakeClose(Side, u8),
    Watchdog(Side),
    Linger(Side),
    // Nobody can count on these.
    Wake(Side),
    WakeProgram(Side),
    Restart(Side),
    Readopt(Side),
    // Faults.
    CrashProgram(Side),
    CrashEntrusted(Side),
    CrashEngine(Side),
    StopEngine(Side),
    StopProgram(Side),
    Die(Side, u8),
    CutLink,
}

impl Step {
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Step::CrashProgram(_)
                | Step::CrashEntrusted(_)
                | Step::CrashEngine(_)
                | Step::StopEngine(_)
                | Step::StopProgram(_)
                | Step::Die(..)
                | Step::CutLink
        )
    }

    /// It happens some time, if nothing else prevents it: nobody has to be lucky for it.
    pub fn is_sure(self, world: &World) -> bool {
        match self {
            // What nobody sends again may be lost.
            Step::Open(Side::B, epoch)
            | Step::Place(_, epoch, _)
            | Step::TakeClose(_, epoch)
            | Step::Free(_, epoch) => SIDES.iter().all(|side| {
                world.engines[*side as usize].points[epoch as usize - 1].attached && world.up(*side)
            }),
            Step::Open(Side::A, _)
            | Step::Prepare
            | Step::Agree { .. }
            | Step::Wake(_)
            | Step::WakeProgram(_)
            | Step::Restart(_)
            | Step::Readopt(_) => false,
            _ => !self.is_fault(),
        }
    }

    /// Every step that a scenario can have.
    pub fn all(scenario: &Scenario) -> Vec<Step> {
        let mut steps = vec![Step::Prepare, Step::Abort, Step::CutLink];
        let most = scenario.bytes.into_iter().max().unwrap_or(0);
        for side in SIDES {
            steps.extend(of_side(side));
            if scenario.stops {
                steps.extend(
                    [Step::StopProgram, Step::WakeProgram, Step::Linger].map(|step| step(side)),
                );
            }
            steps.extend((0..=most + EPOCHS as u8).map(|n| Step::Die(side, n)));
            for epoch in 1..=scenario.epochs {
                steps.extend(of_engine(side, epoch));
                steps.extend((0..most).map(|byte| Step::Place(side, epoch, byte)));
                if scenario.is_weak(Weakness::LateFrame) {
                    steps.push(Step::PlaceAlien(side, epoch));
                }
            }
        }
        steps.extend((1..=scenario.epochs).map(|epoch| Step::Agree { epoch }));
        if scenario.faults == 0 {
            steps.retain(|step| !step.is_fault());
        }
        steps
    }
}

fn of_side(side: Side) -> [Step; 17] {
    [
        Step::Write(side),
        Step::Shut(side),
        Step::Read(side),
        Step::Exit(side),
        Step::Suspect(side),
        Step::Resume(side),
        Step::Resend(side),
        Step::Look(side),
        Step::GiveUp(side),
        Step::Watchdog(side),
        Step::Wake(side),
        Step::Restart(side),
        Step::Readopt(side),
        Step::CrashProgram(side),
        Step::CrashEntrusted(side),
        Step::CrashEngine(side),
        Step::StopEngine(side),
    ]
}

fn of_engine(side: Side, epoch: u8) -> [Step; 4] {
    [
        Step::Open(side, epoch),
        Step::Publish(side, epoch),
        Step::Free(side, epoch),
        Step::TakeClose(side, epoch),
    ]
}

impl World {
    /// The state after a step; `None` if it cannot be taken now.
    pub fn after(&self, step: Step, scenario: &Scenario) -> Option<World> {
        let over = self.ends.iter().all(|end| end.holder == Holder::Gone);
        if over || step.is_fault() && self.faults >= scenario.faults {
            return None;
        }
        let mut world = *self;
        world.faults += u8::from(step.is_fault());
        if !world.take(step, scenario) {
            return None;
        }
        for side in SIDES {
            (1..=scenario.epochs).for_each(|epoch| world.pump(side, epoch, scenario));
            world.catch_up(side, scenario);
        }
        Some(world)
    }

    fn take(&mut self, step: Step, scenario: &Scenario) -> bool {
        match step {
            Step::Write(side) => self.write(side, scenario),
            Step::Shut(side) => self.shut(side, scenario),
            Step::Read(side) => self.read(side),
            Step::Exit(side) => self.exit(side, scenario),
            Step::Prepare => self.prepare(scenario),
            Step::Agree { epoch } => self.agree(epoch, scenario),
            Step::Abort => self.abort(scenario),
            Step::Suspect(side) => self.suspect(side, scenario),
            Step::Resume(side) => self.resume(side, scenario),
            Step::Resend(side) => self.resend(side),
            Step::Look(side) => self.look(side, scenario),
            Step::GiveUp(side) => self.give_up(side, scenario),
            Step::Open(side, epoch) => self.open(side, epoch, scenario),
            Step::Place(side, epoch, byte) => self.place(side, epoch, byte, scenario),
            Step::PlaceAlien(side, epoch) => self.place_alien(side, epoch, scenario),
            Step::Publish(side, epoch) => self.publish(side, epoch, scenario),
            Step::Free(side, epoch) => self.free(side, epoch, scenario),
            Step::TakeClose(side, epoch) => self.take_close(side, epoch, scenario),
            Step::Watchdog(side) => self.watchdog(side, scenario),
            Step::Linger(side) => self.linger(side, scenario),
            Step::Wake(side) => self.wake_engine(side),
            Step::WakeProgram(side) => self.wake_program(side),
            Step::Restart(side) => self.restart(side, false),
            Step::Readopt(side) => self.restart(side, true),
            Step::CrashProgram(side) => self.crash_program(side),
            Step::CrashEntrusted(side) => self.crash_entrusted(side, scenario),
            Step::CrashEngine(side) => self.crash_engine(side),
            Step::StopEngine(side) => self.stop_engine(side),
            Step::StopProgram(side) => self.stop_program(side),
            Step::Die(side, arrives) => self.die(side, arrives),
            Step::CutLink => self.cut_link(),
        }
    }
}
