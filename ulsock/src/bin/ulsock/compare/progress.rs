//! Shows on stderr that the comparison moves: a bar on a terminal, a line per scenario elsewhere.
//! It draws between runs only, never while the programs are being measured.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::scenario::Scenario;

pub struct Progress {
    bar: Option<ProgressBar>,
    scenarios: usize,
    begun: usize,
}

impl Progress {
    pub fn new(steps: usize, scenarios: usize) -> Progress {
        let bar = io::stderr().is_terminal().then(|| bar(steps as u64));
        Progress {
            bar,
            scenarios,
            begun: 0,
        }
    }

    pub fn scenario(&mut self, scenario: &Scenario) {
        self.begun += 1;
        match &self.bar {
            Some(bar) => bar.set_message(scenario.name()),
            None => eprintln!("[{}/{}] {}", self.begun, self.scenarios, scenario.name()),
        }
    }

    pub fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:18} {wide_bar} {pos}/{len}  {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
