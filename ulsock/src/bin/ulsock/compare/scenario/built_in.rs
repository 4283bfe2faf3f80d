//! A case with one of our own small programs (`benches/src/bin`): its server, its client, and the
//! line of JSON that the client prints.

use std::process::Command;

use serde::Deserialize;

use super::{Case, Line, Reading};
use crate::compare::busy::Busy;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{Per, Unit};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;

/// The programs that an installation must have.
pub const PROGRAMS: [&str; 5] = ["pingpong", "stream", "dial", "crowd", "team"];

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
    pub places: Places,
    /// A busy loop on each core beside it.
    pub loaded: bool,
    /// Settings for ulsock.
    pub settings: &'static [(&'static str, &'static str)],
    pub unix: bool,
    pub rings: bool,
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
            places: Places::Best,
            loaded: false,
            settings: &[],
            unix: false,
            rings: true,
        }
    }

    fn client(&self, mut command: Command, address: &str, stage: &Stage) -> Command {
        command.args(["client", address]);
        command.args(["--size", &self.size.to_string()]);
        command.args(["--connections", &self.connections.to_string()]);
        command.args(["--seconds", &stage.seconds.as_secs_f64().to_string()]);
        command.args(["--warm-up", &stage.warm_up.as_secs_f64().to_string()]);
        command
    }

    fn reading(&self, line: &Printed, ran: crate::compare::stage::Ran) -> Result<Reading, String> {
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

/// What a client prints; each program fills its own part.
#[derive(Deserialize)]
struct Printed {
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

    fn contenders(&self) -> Vec<Contender> {
        let mut contenders = vec![Contender::Kernel, Contender::Ulsock];
        contenders.extend(self.unix.then_some(Contender::Unix));
        contenders
    }

    fn placements(&self) -> Vec<Placement> {
        match self.places {
            Places::Best => Placement::available(),
            Places::Only(placement) => vec![placement],
        }
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let (server_address, client_address, ready) = match how.contender {
            Contender::Unix => {
                let path = stage.fresh("socket");
                let address = format!("unix:{}", path.display());
                (address.clone(), address, Ready::Path(path))
            }
            _ => {
                let port = stage.port()?;
                (
                    port.to_string(),
                    format!("127.0.0.1:{port}"),
                    Ready::Port(port),
                )
            }
        };
        let mut server = stage.own(how, End::Server, self.program)?;
        server.args(["server", &server_address]);
        let client = stage.own(how, End::Client, self.program)?;
        let mut client = self.client(client, &client_address, stage);
        for (name, value) in self.settings {
            server.env(name, value);
            client.env(name, value);
        }
        let load = self.loaded.then(Busy::everywhere);
        let stop = Stop::Itself;
        let ran = stage.duel(
            how,
            Duel {
                server,
                ready,
                client,
                stop,
            },
        )?;
        drop(load);
        let line: Printed =
            serde_json::from_str(&ran.output).map_err(|error| format!("client: {error}"))?;
        self.reading(&line, ran)
    }
}
