//! Shows on stderr that the comparison moves: a bar on a terminal, a line per scenario elsewhere.
//! It draws between runs only, never while the programs are being measured.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

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

    pub fn scenario(&mut self, name: &str) {
        self.begun += 1;
        let place = format!("[{}/{}] {name}", self.begun, self.scenarios);
        match &self.bar {
            Some(bar) => bar.set_message(place),
            None => eprintln!("{place}"),
        }
    }

    /// One more run is over.
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
    let template = "{msg:22} {wide_bar} run {pos} of {len}, {eta} left";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
