//! Goes through all states that a scenario can reach, nearest first, so that what it finds is short.

use std::fmt;

use super::landmark::{Landmarks, pass};
use super::property::{Wrong, check, check_rest};
use super::rules::Scenario;
use super::state::World;
use super::step::Step;
use super::table::{Index, Table};

/// What was seen, if nothing was wrong.
#[derive(Debug)]
pub struct Seen {
    pub states: usize,
    pub steps: usize,
    /// States in which nothing goes on by itself.
    pub rests: usize,
    pub depth: usize,
    pub landmarks: Landmarks,
}

/// How something wrong comes about.
pub struct Found {
    pub wrong: Wrong,
    trace: Vec<(Step, World)>,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} after {} steps:", self.wrong, self.trace.len())?;
        for (number, (step, world)) in self.trace.iter().enumerate() {
            writeln!(f, "{:3}. {:<24} {world}", number + 1, format!("{step:?}"))?;
        }
        Ok(())
    }
}

struct Explorer<'a> {
    scenario: &'a Scenario,
    steps: Vec<Step>,
    worlds: Vec<World>,
    /// From where, and by which of the steps, each was found first.
    origins: Vec<(Index, u8)>,
    table: Table,
    /// Where each state's steps lead, one state after the other; faults are left out.
    leads: Vec<Index>,
    leads_end: Vec<u32>,
}

pub fn explore(scenario: &Scenario) -> Result<Seen, Found> {
    let mut explorer = Explorer {
        scenario,
        steps: Step::all(scenario),
        worlds: vec![World::new()],
        origins: vec![(0, 0)],
        table: Table::new(),
        leads: Vec::new(),
        leads_end: Vec::new(),
    };
    explorer.table.add(&explorer.worlds, 0);
    explorer.run()
}

impl Explorer<'_> {
    fn run(mut self) -> Result<Seen, Found> {
        let (mut taken, mut rests) = (0, 0);
        let mut landmarks = Landmarks::new();
        let mut index = 0;
        while index < self.worlds.len() {
            let (steps, rest) = self.expand(index as Index)?;
            taken += steps;
            rests += usize::from(rest);
            landmarks.extend(pass(&self.worlds[index]));
            index += 1;
        }
        self.check_circles()?;
        Ok(Seen {
            states: self.worlds.len(),
            steps: taken,
            rests,
            depth: self.trace(self.worlds.len() as Index - 1).len(),
            landmarks,
        })
    }

    /// Takes all steps from one state; says how many there are, and whether none of them is sure.
    fn expand(&mut self, index: Index) -> Result<(usize, bool), Found> {
        let world = self.worlds[index as usize];
        let (mut taken, mut rest) = (0, true);
        for number in 0..self.steps.len() {
            let step = self.steps[number];
            let Some(next) = world.after(step, self.scenario) else {
                continue;
            };
            taken += 1;
            rest &= !step.is_sure(&world);
            if let Some(wrong) = check(&world, &next) {
                let mut trace = self.trace(index);
                trace.push((step, next));
                return Err(Found { wrong, trace });
            }
            let found = self.find(next, (index, number as u8));
            if !step.is_fault() {
                self.leads.push(found);
            }
        }
        self.leads_end.push(self.leads.len() as u32);
        if let Some(wrong) = check_rest(&world, self.scenario).filter(|_| rest) {
            let trace = self.trace(index);
            return Err(Found { wrong, trace });
        }
        Ok((taken, rest))
    }

    fn find(&mut self, world: World, origin: (Index, u8)) -> Index {
        let new = self.worlds.len() as Index;
        self.worlds.push(world);
        let index = self.table.add(&self.worlds, new);
        if index == new {
            self.origins.push(origin);
        } else {
            self.worlds.pop();
        }
        index
    }

    fn trace(&self, mut index: Index) -> Vec<(Step, World)> {
        let mut trace = Vec::new();
        while index != 0 {
            let (from, step) = self.origins[index as usize];
            trace.push((self.steps[step as usize], self.worlds[index as usize]));
            index = from;
        }
        trace.reverse();
        trace
    }

    /// Takes away, again and again, the states to which no step leads: what stays lies on or behind a circle.
    /// Without one every run comes to rest, unless faults go on for ever.
    fn check_circles(&self) -> Result<(), Found> {
        let mut into = vec![0u32; self.worlds.len()];
        self.leads.iter().for_each(|to| into[*to as usize] += 1);
        let free = |index: &Index| into[*index as usize] == 0;
        let mut free: Vec<Index> = (0..self.worlds.len() as Index).filter(free).collect();
        while let Some(index) = free.pop() {
            for to in self.leads_of(index) {
                into[*to as usize] -= 1;
                if into[*to as usize] == 0 {
                    free.push(*to);
                }
            }
        }
        match into.iter().position(|into| *into != 0) {
            None => Ok(()),
            Some(index) => Err(Found {
                wrong: Wrong::Circle,
                trace: self.trace(index as Index),
            }),
        }
    }

    fn leads_of(&self, index: Index) -> &[Index] {
        let index = index as usize;
        let begin = index.checked_sub(1).map_or(0, |i| self.leads_end[i]);
        &self.leads[begin as usize..self.leads_end[index] as usize]
    }
}
