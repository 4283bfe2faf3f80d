//! One run: a server and a client, started on one carrier and at one placement, and what they did.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::cores::Placement;
use super::process::{Ended, Process};
use super::scenario::{Kind, Scenario, PROGRAMS};
use super::usage::{Usage, UsageFile};
use crate::failure::Failure;
use crate::install::Install;
use crate::preload;

/// A run that takes this much longer than it measures hangs.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
pub enum Carrier {
    Kernel,
    Ulsock,
}

/// What one run gave.
pub struct Sample {
    /// Microseconds per round trip, or bytes per second.
    pub figure: f64,
    pub p99_us: Option<f64>,
    /// CPU seconds of both ends per million round trips or per gigabyte.
    pub cpu: f64,
    /// One entry per process on ulsock that reported.
    pub usage: Vec<Usage>,
}

/// What a client prints; each program fills its own part.
#[derive(Deserialize)]
struct Line {
    total_messages: u64,
    mean_us: Option<f64>,
    p99_us: Option<f64>,
    bytes_per_s: Option<f64>,
}

/// Everything that a run needs.
pub struct Pairs {
    programs: [PathBuf; 2],
    preload: OsString,
    usage: UsageFile,
    seconds: Duration,
    warm_up: Duration,
}

impl Pairs {
    pub fn new(install: &Install, seconds: Duration, warm_up: Duration) -> Result<Pairs, Failure> {
        let usage = UsageFile::create().map_err(|error| {
            Failure::setup(format!("cannot create a temporary folder: {error}"))
        })?;
        Ok(Pairs {
            programs: [install.find(PROGRAMS[0])?, install.find(PROGRAMS[1])?],
            preload: preload::with_library(&install.library()?, std::env::var_os("LD_PRELOAD"))?,
            usage,
            seconds,
            warm_up,
        })
    }

    /// Runs the pair once; an error says which end failed and how.
    pub fn run(
        &self,
        scenario: &Scenario,
        carrier: Carrier,
        placement: &Placement,
    ) -> Result<Sample, String> {
        let deadline = Instant::now() + self.seconds + self.warm_up + PATIENCE;
        // A run that failed may have left lines behind.
        self.usage.clear();
        let at_server = |error| format!("server: {error}");
        let mut server = placement
            .server(|| Process::start(self.command(scenario, carrier).args(["server", "0"])))
            .map_err(at_server)?;
        let port = server.line(deadline).map_err(at_server)?;
        let arguments = self.client_arguments(scenario, &port);
        let client = placement
            .client(|| Process::start(self.command(scenario, carrier).args(arguments)))
            .map_err(|error| format!("client: {error}"))?;
        let client = finish("client", client, deadline)?;
        let server = finish("server", server, deadline)?;
        self.sample(scenario, &client, &server)
    }

    fn command(&self, scenario: &Scenario, carrier: Carrier) -> Command {
        let program = match scenario.kind {
            Kind::PingPong => &self.programs[0],
            Kind::Stream => &self.programs[1],
        };
        let mut command = Command::new(program);
        match carrier {
            Carrier::Kernel => command
                .env(
                    "LD_PRELOAD",
                    preload::without_library(std::env::var_os("LD_PRELOAD")),
                )
                .env_remove("ULSOCK_REPORT"),
            Carrier::Ulsock => command
                .env("LD_PRELOAD", &self.preload)
                .env("ULSOCK_REPORT", self.usage.path()),
        };
        command
    }

    fn client_arguments(&self, scenario: &Scenario, port: &str) -> [String; 8] {
        [
            "client".to_owned(),
            format!("127.0.0.1:{port}"),
            "--size".to_owned(),
            scenario.size.to_string(),
            "--seconds".to_owned(),
            self.seconds.as_secs_f64().to_string(),
            "--warm-up".to_owned(),
            self.warm_up.as_secs_f64().to_string(),
        ]
    }

    fn sample(
        &self,
        scenario: &Scenario,
        client: &Ended,
        server: &Ended,
    ) -> Result<Sample, String> {
        let line: Line =
            serde_json::from_str(&client.output).map_err(|error| format!("client: {error}"))?;
        let figure = match scenario.kind {
            Kind::PingPong => line.mean_us,
            Kind::Stream => line.bytes_per_s,
        };
        Ok(Sample {
            figure: figure.ok_or("client: printed no figure")?,
            p99_us: line.p99_us,
            cpu: (client.cpu + server.cpu).as_secs_f64() / scenario.cpu_units(line.total_messages),
            usage: self.usage.read(),
        })
    }
}

fn finish(name: &str, process: Process, deadline: Instant) -> Result<Ended, String> {
    let ended = process
        .end(deadline)
        .map_err(|error| format!("{name}: {error}"))?;
    match ended.status.success() {
        true => Ok(ended),
        false => Err(format!("{name}: {}", ended.status)),
    }
}
