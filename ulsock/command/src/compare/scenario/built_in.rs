//! A case with one of our own small programs (`benches/src/bin`): its server, its client, and the
//! line of JSON that the client prints.

use std::process::Command;

use serde::Deserialize;

use super::{Case, Line, Reading};
use crate::compare::bout::Bout;
use crate::compare::busy::Busy;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::duel::Stop;
use crate::compare::figure::{Per, Unit};
use crate::compare::stage::{Ran, preloaded};
use crate::compare::usage::End;
use crate::preload;

/// The programs that an installation must have.
pub const PROGRAMS: [&str; 10] = [
    "pingpong",
    "stream",
    "messages",
    "requests",
    "multicast",
    "dial",
    "crowd",
    "team",
    "calls",
    "hoard",
];

/// Which placements a case is run at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// Left to the scheduler, and on two cores.
    Best,
    /// Always this one.
    Only(Placement),
}

pub struct BuiltIn {
    pub program: &'static str,
    pub label: String,
    pub unit: Unit,
    pub x: Option<u64>,
    pub size: u64,
    pub connections: u64,
    /// What the server is told beside its address.
    pub options: &'static str,
    pub places: Places,
    /// A busy loop on each core beside it.
    pub loaded: bool,
    /// Settings for ulsock.
    pub settings: &'static [(&'static str, &'static str)],
    pub references: &'static [Contender],
    pub rings: bool,
    /// Of ulsock's two ends only this one has it.
    pub only: Option<End>,
    /// The program is written for ulsock: it has it in it, and stays on kernel TCP if it is told to.
    pub native: bool,
}

impl BuiltIn {
    pub fn new(program: &'static str, label: impl Into<String>, unit: Unit) -> BuiltIn {
        BuiltIn {
            program,
            label: label.into(),
            unit,
            x: None,
            size: 64,
            connections: 1,
            options: "",
            places: Places::Best,
            loaded: false,
            settings: &[],
            references: &[],
            rings: true,
            only: None,
            native: false,
        }
    }

    fn command(&self, bout: &Bout, end: End, words: &str) -> Result<Command, String> {
        let program = match bout.how.contender {
            Contender::Messages => "messages",
            _ => self.program,
        };
        let mut command = bout.own(end, program, words)?;
        command.envs(self.settings.iter().copied());
        if self.native || self.only.is_some_and(|only| only != end) {
            command.env("LD_PRELOAD", preload::without_library(preloaded()));
        }
        if self.native && bout.how.contender == Contender::Kernel {
            command.env("ULSOCK_EXCLUDE", "0.0.0.0/0,::/0");
        }
        Ok(command)
    }

    fn server(&self, bout: &Bout) -> Result<Command, String> {
        let address = address(bout);
        let words = format!("server {address} {}", self.options);
        self.command(bout, End::Server, &words)
    }

    fn client(&self, bout: &Bout) -> Result<Command, String> {
        let address = address(bout);
        let words = format!(
            "client {address} --size {} --connections {} --seconds {} --warm-up {}",
            self.size,
            self.connections,
            bout.seconds(),
            bout.stage.warm_up.as_secs_f64()
        );
        let words = match bout.how.contender {
            Contender::Messages => format!("{words} --kind {}", self.kind()),
            _ => words,
        };
        self.command(bout, End::Client, &words)
    }

    /// What the program `messages` does instead.
    fn kind(&self) -> &'static str {
        match self.program {
            "pingpong" => "trips",
            other => other,
        }
    }

    fn reading(&self, line: &BuiltInPrinted, ran: Ran) -> Result<Reading, String> {
        let value = match self.unit {
            Unit::Micros => line.mean_us,
            Unit::Bytes | Unit::Messages(_) => line.bytes_per_s,
            _ => line.messages_per_s,
        };
        let work = match self.per() {
            Per::Gigabyte => (line.total_messages * self.size) as f64 / 1e9,
            _ => line.total_messages as f64 / 1e6,
        };
        let value = value.ok_or("client: printed no figure")?;
        let reading = Reading::new(value, ran, work);
        Ok(Reading {
            percentiles: line.percentiles.clone(),
            ..reading
        })
    }

    fn per(&self) -> Per {
        match self.unit {
            Unit::Bytes | Unit::Messages(_) => Per::Gigabyte,
            _ => Per::Million,
        }
    }
}

fn address(bout: &Bout) -> &'static str {
    match bout.how.contender {
        Contender::Unix | Contender::UlsockUnix => "unix:{path}",
        Contender::Ring => "ring:{path}",
        Contender::Chain => "chain:{host}:{path}",
        _ => "{host}:{port}",
    }
}

/// What a client prints; each program fills its own part.
#[derive(Deserialize)]
struct BuiltInPrinted {
    total_messages: u64,
    mean_us: Option<f64>,
    messages_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
    #[serde(default)]
    percentiles: Vec<(f64, f64)>,
}

impl Case for BuiltIn {
    fn lines(&self) -> Vec<Line> {
        let line = Line::new(&self.label, self.unit.clone(), self.per());
        vec![Line {
            x: self.x.map(|x| x as f64),
            rings: self.rings,
            ..line
        }]
    }

    fn references(&self) -> Vec<Contender> {
        self.references.to_vec()
    }

    fn placements(&self) -> Vec<Placement> {
        match self.places {
            Places::Best => Placement::available(),
            Places::Only(placement) => vec![placement],
        }
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let load = self.loaded.then(Busy::everywhere);
        let ran = bout.fight(self.server(bout)?, self.client(bout)?, Stop::Itself)?;
        drop(load);
        let line: BuiltInPrinted =
            serde_json::from_str(&ran.output).map_err(|error| format!("client: {error}"))?;
        self.reading(&line, ran)
    }
}
