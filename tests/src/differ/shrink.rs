//! Makes a program that shows a difference as small as it can.

use std::time::{Duration, Instant};

use super::compare::{Difference, Judge, Verdict};
use super::generate;
use super::mode::Mode;
use super::program::Program;

/// How often a smaller program is tried: differences may need luck.
const TRIES: usize = 3;

/// A program and the difference that it shows.
pub struct Found {
    /// The program.
    pub program: Program,
    /// What it shows.
    pub difference: Difference,
}

/// Tries smaller programs for as long as `limit`.
pub fn shrink(judge: &Judge, mode: &Mode, found: Found, limit: Duration) -> Found {
    let mut shrinker = Shrinker {
        judge,
        mode,
        best: found,
        end: Instant::now() + limit,
    };
    shrinker.cut_end();
    let mut size = usize::MAX;
    while shrinker.size() < size && !shrinker.is_over() {
        size = shrinker.size();
        shrinker.remove_steps();
        shrinker.simplify_arguments();
    }
    shrinker.best
}

struct Shrinker<'a> {
    judge: &'a Judge,
    mode: &'a Mode,
    best: Found,
    end: Instant,
}

impl Shrinker<'_> {
    fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// Steps and arguments, and the digits of these.
    fn size(&self) -> usize {
        self.best.program.to_string().len()
    }

    /// Keeps a smaller program if it differs too.
    fn attempt(&mut self, program: Program) -> bool {
        if !generate::is_determined(&program) {
            return false;
        }
        for _ in 0..TRIES {
            if self.is_over() {
                return false;
            }
            if let Verdict::Differs(difference) = self.judge.compare(&program, self.mode) {
                self.best = Found {
                    program,
                    difference,
                };
                return true;
            }
        }
        false
    }

    /// What comes after the difference does not matter.
    fn cut_end(&mut self) {
        let mut program = self.best.program.clone();
        program.steps.truncate(self.best.difference.step + 1);
        self.attempt(program);
    }

    /// Pieces of half the program, of a quarter, and so on down to single steps.
    fn remove_steps(&mut self) {
        let mut piece = self.best.program.steps.len() / 2;
        while piece > 0 {
            let mut at = 0;
            while at < self.best.program.steps.len() && !self.is_over() {
                let mut program = self.best.program.clone();
                let end = (at + piece).min(program.steps.len());
                program.steps.drain(at..end);
                if !self.attempt(program) {
                    at += piece;
                }
            }
            piece /= 2;
        }
    }

    fn simplify_arguments(&mut self) {
        for step in 0..self.best.program.steps.len() {
            for index in (0..self.best.program.steps[step].args.len()).rev() {
                self.simplify(step, index);
            }
        }
    }

    /// Without the argument; else a smaller number, or fewer bits.
    fn simplify(&mut self, step: usize, index: usize) {
        let mut program = self.best.program.clone();
        let (key, value) = program.steps[step].args.remove(index);
        // Without it a Unix socket would be one of TCP, whose differences are others.
        if key == "over" || self.attempt(program) {
            return;
        }
        let named = matches!(
            key.as_str(),
            "fd" | "set"
                | "to"
                | "peer"
                | "peerfd"
                | "option"
                | "op"
                | "signal"
                | "how"
                | "onto"
                | "other"
                | "port"
                | "rights"
        );
        let mut smaller = if named {
            vec![]
        } else {
            vec![1, value / 2, value - 1]
        };
        if matches!(key.as_str(), "flags" | "events") {
            smaller = (0..32).map(|bit| value & !(1 << bit)).collect();
        }
        for candidate in smaller.into_iter().filter(|candidate| *candidate != value) {
            let mut program = self.best.program.clone();
            program.steps[step].args[index].1 = candidate;
            if self.size() >= program.to_string().len() && self.attempt(program) {
                return;
            }
        }
    }
}
