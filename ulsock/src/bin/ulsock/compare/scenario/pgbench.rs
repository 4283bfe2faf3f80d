//! PostgreSQL with pgbench's read-only transactions. PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::text::figure_after;
use super::{Case, Chart, Effort, Line, Reading, Scenario};
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::figure::{count_text, Per, Unit};
use crate::compare::programs::{find_or_say, need};
use crate::compare::stage::{Duel, How, Ready, Stage, Stop};
use crate::compare::usage::End;
use crate::compare::user;
use rustix::process::Signal;

pub const SCENARIO: Scenario = Scenario {
    name: "pgbench",
    title: "PostgreSQL, select only (pgbench -S)",
    needs: &[
        need("postgres", "postgresql"),
        need("initdb", "postgresql"),
        need("pgbench", "postgresql"),
    ],
    chart: Chart::Bars,
    quick: true,
    cases,
};

struct Select {
    clients: u32,
}

fn cases(effort: Effort) -> Vec<Box<dyn Case>> {
    let case = |clients| -> Box<dyn Case> { Box::new(Select { clients }) };
    effort.pick(&[4], &[1, 4]).into_iter().map(case).collect()
}

impl Case for Select {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.clients.into(), "client");
        vec![Line::new(
            label,
            Unit::PerSecond("transactions"),
            Per::Million,
        )]
    }

    fn run(&self, how: &How, stage: &Stage) -> Result<Reading, String> {
        let cluster = Cluster::new(stage)?;
        // It counts transactions, not seconds: what kernel TCP does in a second on a slow machine.
        let each = (20e3 * stage.seconds.as_secs_f64() / f64::from(self.clients))
            .max(50.0)
            .ceil();
        let arguments = format!("-S -n -j 1 -c {} -t {each}", self.clients);
        let ran = stage.duel(how, cluster.duel(how, stage, &arguments)?)?;
        let rate = parse(&ran.output)?;
        Ok(Reading::new(
            rate,
            ran,
            each * f64::from(self.clients) / 1e6,
        ))
    }
}

/// A folder with a filled database.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    /// The one of this comparison; made and filled at its first use.
    fn new(stage: &Stage) -> Result<Cluster, String> {
        let folder = stage.folder().join("postgres");
        let cluster = Cluster { folder };
        if !cluster.folder.exists() {
            cluster.fill(stage).inspect_err(|_| {
                // The next run begins anew; what cannot be removed goes with the work folder.
                let _ = fs::remove_dir_all(&cluster.folder);
            })?;
        }
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn fill(&self, stage: &Stage) -> Result<(), String> {
        make_folder(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let how = How {
            contender: Contender::Kernel,
            placement: Placement::Scheduler,
        };
        let initdb = stage.command(&how, End::Server, find_or_say("initdb")?);
        let mut initdb = self.as_user(initdb);
        initdb.args([
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
            "-U",
            "postgres",
            "-D",
        ]);
        stage.prepare(initdb.arg(self.data()))?;
        stage.duel(&how, self.duel(&how, stage, "-i -q -s 1")?)?;
        Ok(())
    }

    /// The server, and pgbench with `arguments`.
    fn duel(&self, how: &How, stage: &Stage, arguments: &str) -> Result<Duel, String> {
        let port = stage.port()?.to_string();
        let server = stage.command(how, End::Server, find_or_say("postgres")?);
        let mut server = self.as_user(server);
        if how.contender == Contender::Ulsock {
            server.env("LD_PRELOAD", stage.shared_library()?);
        }
        server.arg("-D").arg(self.data()).args(["-p", &port]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
        ] {
            server.args(["-c", setting]);
        }
        let mut client = stage.command(how, End::Client, find_or_say("pgbench")?);
        client.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres"]);
        client.args(arguments.split_whitespace()).arg("postgres");
        // Its fast shutdown: clients that are still there are disconnected.
        let stop = Stop::Signal(Signal::INT);
        let ready = Ready::Says("ready to accept connections");
        Ok(Duel {
            server,
            ready,
            client,
            stop,
        })
    }

    fn as_user(&self, mut command: Command) -> Command {
        if let Some(user) = user::for_servers() {
            command.uid(user.uid).gid(user.gid);
        }
        command.current_dir(&self.folder);
        command
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    match user::for_servers() {
        Some(user) => chown(folder, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

fn parse(text: &str) -> Result<f64, String> {
    figure_after(text, "tps =")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_output() {
        assert_eq!(
            parse(include_str!("recorded/pgbench.txt")),
            Ok(31881.147084)
        );
        assert!(parse("pgbench: error: connection to server failed").is_err());
    }
}
