//! Many programs: seeds one after the other, on several threads, until one differs or time is up.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::compare::{Difference, Judge, Verdict};
use super::generate::{self, Family};
use super::mode::Mode;
use super::program::Program;
use super::shrink::{Found, shrink};

/// What to run.
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// Whose programs: of each seed, one of each family.
    pub families: Vec<Family>,
    /// How many programs at most.
    pub programs: u64,
    /// How long at most.
    pub time: Duration,
    /// How the accelerated runs go; programs take them in turn.
    pub modes: Vec<Mode>,
    /// Half of the programs have calls that hand connections over; see [`generate::program`].
    pub hand_over: bool,
    /// Calls and arguments of calls that are left out of the programs; see [`super::program::Step::has`].
    pub without: Vec<String>,
    /// How many programs run at once.
    pub jobs: usize,
    /// How long to shrink a program that differs.
    pub shrink: Duration,
    /// Go on after a difference?
    pub go_on: bool,
    /// The program that becomes an actor.
    pub actor: PathBuf,
}

/// A program that differs.
pub struct Case {
    /// Its seed.
    pub seed: u64,
    /// Whose program of this seed it is.
    pub family: Family,
    /// How it was run.
    pub mode: Mode,
    /// It, made small.
    pub program: Program,
    /// What it shows.
    pub difference: Difference,
    /// What actors wrote to stderr.
    pub complaints: String,
}

impl Case {
    /// The program as the file that replays it, with what it shows.
    pub fn text(&self) -> String {
        let Difference { step, kernel, ours } = &self.difference;
        format!(
            "# seed {}, family {}, mode {}, step {}:\n# kernel: {kernel}\n# ulsock: {ours}\n{}",
            self.seed,
            self.family,
            self.mode,
            step + 1,
            self.program
        )
    }
}

/// What a campaign came to.
#[derive(Default)]
pub struct Summary {
    /// Programs that ran.
    pub programs: u64,
    /// Those whose kernel runs differed among each other.
    pub undetermined: u64,
    /// Their seeds.
    pub odd_seeds: Vec<u64>,
    /// Those that ran with both ends accelerated.
    pub accelerated: u64,
    /// Those of them in which rings carried bytes.
    pub on_rings: u64,
    /// Bytes that rings carried.
    pub ring_bytes: u64,
    /// Those that differ.
    pub cases: Vec<Case>,
}

/// Runs the plan; `tell` hears of progress and of each case.
pub fn run(plan: &Plan, tell: &(dyn Fn(&Summary, Option<&Case>) + Sync)) -> Summary {
    let campaign = Campaign {
        plan,
        tell,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        end: Instant::now() + plan.time,
        summary: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs {
            scope.spawn(|| campaign.work());
        }
    });
    campaign.summary.into_inner().expect("no thread panicked")
}

struct Campaign<'a> {
    plan: &'a Plan,
    tell: &'a (dyn Fn(&Summary, Option<&Case>) + Sync),
    next: AtomicU64,
    stop: AtomicBool,
    end: Instant,
    summary: Mutex<Summary>,
}

impl Campaign<'_> {
    fn work(&self) {
        let judge = Judge::new(self.plan.actor.clone());
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let over = index >= self.plan.programs || Instant::now() > self.end;
            if over || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let families = &self.plan.families;
            let family = families[(index % families.len() as u64) as usize];
            self.one(
                &judge,
                self.plan.seed + index / families.len() as u64,
                family,
            );
        }
    }

    fn one(&self, judge: &Judge, seed: u64, family: Family) {
        let mut program = generate::program(seed, family, self.plan.hand_over);
        program
            .steps
            .retain(|step| !self.plan.without.iter().any(|word| step.has(word)));
        let mode = &self.plan.modes[(seed % self.plan.modes.len() as u64) as usize];
        let verdict = judge.compare(&program, mode);
        let report = judge.take_report();
        let mut summary = self.summary.lock().expect("no thread panicked");
        summary.programs += 1;
        if mode.accelerates() {
            summary.accelerated += 1;
            summary.on_rings += u64::from(report.ring_bytes() > 0);
            summary.ring_bytes += report.ring_bytes();
        }
        match verdict {
            Verdict::Same => {}
            Verdict::Undetermined(_) => {
                summary.undetermined += 1;
                summary.odd_seeds.push(seed);
            }
            Verdict::Differs(difference) => {
                drop(summary);
                return self.found(
                    judge,
                    (seed, family),
                    mode,
                    Found {
                        program,
                        difference,
                    },
                );
            }
        }
        drop(judge.take_complaints());
        (self.tell)(&summary, None);
    }

    fn found(&self, judge: &Judge, (seed, family): (u64, Family), mode: &Mode, found: Found) {
        if !self.plan.go_on {
            self.stop.store(true, Ordering::Relaxed);
        }
        let complaints = judge.take_complaints();
        let small = shrink(judge, mode, found, self.plan.shrink);
        drop((judge.take_report(), judge.take_complaints()));
        let case = Case {
            seed,
            family,
            mode: mode.clone(),
            program: small.program,
            difference: small.difference,
            complaints,
        };
        let mut summary = self.summary.lock().expect("no thread panicked");
        (self.tell)(&summary, Some(&case));
        summary.cases.push(case);
    }
}
