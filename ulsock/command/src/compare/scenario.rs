//! What is measured. A scenario is a subject (redis, say) with one or more cases; a case is a pair
//! of programs with fixed options, and gives one or more lines of the table.

mod apart;
mod built_in;
mod calls;
mod chain;
mod churn;
mod crowd;
mod exchange;
mod go;
mod gunicorn;
mod iperf3;
mod java;
mod liburing;
mod memcached;
mod memory;
mod messages;
mod mpi;
mod multicast;
mod netpipe;
mod nginx;
mod pgbench;
mod ping_pong;
mod redis;
mod requests;
mod sockperf;
mod source;
mod stream;
mod team;
pub mod text;
mod ucx;
mod unix;
mod zmq;

pub use built_in::PROGRAMS;

use super::bout::Bout;
use super::contender::{Contender, Rivals};
use super::cores::Placement;
use super::figure::{Per, Unit};
use super::programs::Need;
use super::result::Row;
use super::stage::Ran;
use super::usage::Usage;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Quick,
    Full,
}

impl Effort {
    /// A case of each that belongs to the quick run, or of all.
    pub fn cases<T: Clone, C: Case + 'static>(
        self,
        quick: &[T],
        full: &[T],
        case: impl Fn(T) -> C,
    ) -> Vec<Box<dyn Case>> {
        let chosen = match self {
            Effort::Quick => quick,
            Effort::Full => full,
        };
        let case = |of: &T| -> Box<dyn Case> { Box::new(case(of.clone())) };
        chosen.iter().map(case).collect()
    }
}

/// How the lines of a scenario are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Chart {
    /// Over the message size, on log axes.
    Sizes,
    /// Over the number of connections.
    Connections,
    /// One bar per contender.
    Bars,
}

pub struct Scenario {
    /// For `--only`.
    pub name: &'static str,
    pub title: &'static str,
    /// What it needs beside ourselves.
    pub needs: &'static [Need],
    /// References, by their names, that are left out where they are not installed.
    pub optional: &'static [(&'static str, &'static [Need])],
    pub chart: Chart,
    /// Whom it compares.
    pub rivals: Rivals,
    /// Whether it is part of the quick run.
    pub quick: bool,
    /// Whether its ends can be on one host, and on two.
    pub on_one_host: bool,
    pub between_hosts: bool,
    pub cases: fn(Effort) -> Vec<Box<dyn Case>>,
    /// What its rows say together.
    pub remarks: fn(&[Row]) -> Vec<String>,
}

impl Scenario {
    /// What most of them have in common.
    const DEFAULT: Scenario = Scenario {
        name: "",
        title: "",
        needs: &[],
        optional: &[],
        chart: Chart::Bars,
        rivals: Rivals::TCP,
        quick: false,
        on_one_host: true,
        between_hosts: false,
        cases: |_| Vec::new(),
        remarks: |_| Vec::new(),
    };
}

/// A line of the table.
pub struct Line {
    pub label: String,
    /// The message size or the number of connections.
    pub x: Option<f64>,
    pub unit: Unit,
    pub per: Per,
    /// Whether the connections are meant to leave kernel TCP: short ones are not.
    pub rings: bool,
    /// Whether ulsock may leave them there nevertheless: the ratio is of what it decides.
    pub hybrid: bool,
    /// Whether the two are in a race: then there is a ratio. A cost is only told.
    pub race: bool,
}

impl Line {
    pub fn new(label: impl Into<String>, unit: Unit, per: Per) -> Line {
        Line {
            label: label.into(),
            x: None,
            unit,
            per,
            rings: true,
            hybrid: false,
            race: true,
        }
    }

    pub fn at(self, x: u64) -> Line {
        let x = Some(x as f64);
        Line { x, ..self }
    }
}

/// What one run gave.
pub struct Reading {
    /// One for each line.
    pub values: Vec<f64>,
    /// Percent and microseconds, where the program tells.
    pub percentiles: Vec<(f64, f64)>,
    /// CPU seconds of both ends, per what the lines say.
    pub cpu: f64,
    /// What the two ends reported, on ulsock.
    pub usage: [Option<Usage>; 2],
}

impl Reading {
    /// `work` is how many of the units that CPU time is given per.
    pub fn new(value: f64, ran: Ran, work: f64) -> Reading {
        Reading {
            values: vec![value],
            percentiles: Vec::new(),
            cpu: ran.cpu.as_secs_f64() / work,
            usage: ran.usage,
        }
    }
}

pub trait Case {
    fn lines(&self) -> Vec<Line>;

    /// What kernel TCP and ulsock are held against, where there is such.
    fn references(&self) -> Vec<Contender> {
        Vec::new()
    }

    fn placements(&self) -> Vec<Placement> {
        Placement::available()
    }

    /// Runs once; an error says which end failed and how.
    fn run(&self, bout: &Bout) -> Result<Reading, String>;
}

pub const SCENARIOS: &[Scenario] = &[
    ping_pong::SCENARIO,
    stream::SCENARIO,
    sockperf::SCENARIO,
    netpipe::SCENARIO,
    iperf3::SCENARIO,
    redis::SCENARIO,
    memcached::SCENARIO,
    nginx::KEEP_ALIVE,
    nginx::SHORT,
    pgbench::SELECT,
    pgbench::TPC_B,
    go::PING_PONG,
    go::HTTP,
    go::REDIS,
    java::SCENARIO,
    zmq::SCENARIO,
    liburing::SCENARIO,
    requests::SCENARIO,
    multicast::SCENARIO,
    exchange::SCENARIO,
    churn::SCENARIO,
    crowd::SCENARIO,
    crowd::POLL,
    unix::PING_PONG,
    unix::STREAM,
    unix::REDIS,
    unix::PGBENCH,
    unix::NGINX,
    unix::CHURN,
    memory::SCENARIO,
    calls::SCENARIO,
    team::SCENARIO,
    apart::ONE_CORE,
    apart::LOADED,
    apart::BLOCKING,
    apart::ONE_SIDED,
    chain::SCENARIO,
];
