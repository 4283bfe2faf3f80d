//! Many attacks, one after the other: by strangers and by the victim's own user, on victims that wait in every way.

use std::fmt;

use super::cases::{CASES, Case};
use super::world::{Verdict, WAITS, World};
use crate::rng::Rng;

/// What to run.
pub struct Plan {
    /// Of the first attack; each further one has the next.
    pub seed: u64,
    /// How many attacks at most.
    pub cases: usize,
    /// Only those whose name contains this.
    pub only: String,
    /// Go on after one that succeeds?
    pub go_on: bool,
}

/// One attack of a plan.
#[derive(Clone, Copy)]
pub struct Attack {
    pub case: &'static Case,
    pub seed: u64,
    pub wait: &'static str,
    pub by_stranger: bool,
}

impl Attack {
    /// The seed alone says who attacks whom, so that it finds the same again.
    fn new(case: &'static Case, seed: u64) -> Attack {
        let mut rng = Rng::new(seed, 1);
        Attack {
            case,
            seed,
            wait: rng.pick(&WAITS),
            by_stranger: rng.below(2) == 0,
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by_stranger {
            true => "stranger",
            false => "same user",
        };
        let Attack { seed, wait, .. } = self;
        write!(f, "--only {} --seed {seed} ({wait}, {by})", self.case.name)
    }
}

impl Plan {
    fn attacks(&self) -> Vec<Attack> {
        let wanted = CASES.iter().filter(|case| case.name.contains(&self.only));
        let turns = wanted.cycle().zip(self.seed..).take(self.cases);
        turns.map(|(case, seed)| Attack::new(case, seed)).collect()
    }
}

/// Runs the plan; `tell` hears of each attack. The number of those that succeeded.
///
/// # Panics
/// If a victim, or an honest client, does not end as it should.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&Attack, &Verdict)) -> usize {
    let mut found = 0;
    let attacks = plan.attacks();
    for wait in WAITS {
        let mut world = None;
        for attack in attacks.iter().filter(|attack| attack.wait == wait) {
            let at = world.get_or_insert_with(|| World::new(wait));
            let verdict = at.attack(attack.case, attack.seed, attack.by_stranger);
            tell(attack, &verdict);
            if verdict.is_err() {
                found += 1;
                // Whatever is left of this one must not be held against the next.
                world = None;
                if !plan.go_on {
                    return found;
                }
            }
        }
        if let Some(world) = world {
            world.end();
        }
    }
    found
}
