//! Where the two ends run: left to the scheduler, or each on a core of its own.
//! A child inherits the affinity of the thread that starts it, so that is set around the start.

use std::io;

use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::usage::End;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    Scheduler,
    TwoCores { server: usize, client: usize },
    OneCore { both: usize },
}

/// Where the user wants all ends to run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ends {
    /// Each contender where it is best.
    Best,
    Scheduler,
    TwoCores,
    OneCore,
}

impl Ends {
    /// `None`: each contender's best. A placement that this machine does not have is the scheduler's.
    pub fn placement(self) -> Option<Placement> {
        let of_two = || Placement::available().into_iter().last();
        match self {
            Ends::Best => None,
            Ends::Scheduler => Some(Placement::Scheduler),
            Ends::TwoCores => of_two(),
            Ends::OneCore => Placement::one_core(),
        }
    }
}

impl Placement {
    /// The scheduler's, and two cores when this process may use two.
    pub fn available() -> Vec<Placement> {
        let mut placements = vec![Placement::Scheduler];
        placements
            .extend(two_cores().map(|(server, client)| Placement::TwoCores { server, client }));
        placements
    }

    /// The same, and one core: for short messages Unix sockets of the kernel can be best there.
    pub fn with_one_core() -> Vec<Placement> {
        let mut placements = Placement::available();
        if placements.len() > 1 {
            placements.extend(Placement::one_core());
        }
        placements
    }

    /// Both ends on the same core.
    pub fn one_core() -> Option<Placement> {
        allowed().first().map(|&both| Placement::OneCore { both })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Placement::Scheduler => "scheduler",
            Placement::TwoCores { .. } => "two cores",
            Placement::OneCore { .. } => "one core",
        }
    }

    /// Starts an end where it belongs.
    pub fn start<T>(&self, end: End, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match (self, end) {
            (Placement::Scheduler, _) => start(),
            (Placement::TwoCores { server, .. }, End::Server) => on_core(*server, start),
            (Placement::TwoCores { client, .. }, End::Client) => on_core(*client, start),
            (Placement::OneCore { both }, _) => on_core(*both, start),
        }
    }
}

/// Runs `start` on one CPU; what it starts inherits that.
pub fn on_core<T>(core: usize, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut alone = CpuSet::new();
    alone.set(core);
    sched_setaffinity(None, &alone)?;
    let started = start();
    sched_setaffinity(None, &before)?;
    started
}

/// Two CPUs that we may use; not two threads of one core where there is a choice.
fn two_cores() -> Option<(usize, usize)> {
    let cpus = allowed();
    let (&first, others) = cpus.split_first()?;
    let siblings = siblings(first);
    let second = others
        .iter()
        .find(|cpu| !siblings.contains(cpu))
        .or(others.first())?;
    Some((first, *second))
}

/// The CPUs that this process may use.
pub fn allowed() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let cpus = 0..CpuSet::MAX_CPU;
    cpus.filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// The CPUs that share a core with `cpu`, itself included (the kernel's list format: `0-1,4`).
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.trim().split(',').flat_map(range).collect()
}

fn range(text: &str) -> Vec<usize> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => (first..=last).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn kernel_cpu_lists() {
        assert_eq!(range("3"), [3]);
        assert_eq!(range("0-2"), [0, 1, 2]);
        assert!(range("").is_empty());
    }
}
