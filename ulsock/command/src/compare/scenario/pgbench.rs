//! PostgreSQL with pgbench: read-only transactions, and those of its default script, which is like TPC-B.
//! PostgreSQL refuses to run as root.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::text::figure_after;
use super::{Case, Effort, Line, Reading, Scenario};
use crate::compare::bout::Bout;
use crate::compare::contender::Contender;
use crate::compare::cores::Placement;
use crate::compare::duel::{Ready, Stop};
use crate::compare::figure::{Per, Unit, count_text};
use crate::compare::programs::{Need, need};
use crate::compare::stage::{How, Ran, Stage};
use crate::compare::user;
use rustix::process::Signal;

const NEEDS: &[Need] = &[
    need("postgres", "postgresql"),
    need("initdb", "postgresql"),
    need("pgbench", "postgresql"),
];

pub const SELECT: Scenario = Scenario {
    name: "pgbench",
    title: "PostgreSQL, select only (pgbench -S)",
    needs: NEEDS,
    quick: true,
    between_hosts: true,
    cases: |effort| cases(effort, Script::Select),
    ..Scenario::DEFAULT
};

pub const TPC_B: Scenario = Scenario {
    name: "tpc-b",
    title: "PostgreSQL, transactions of seven statements (pgbench's TPC-B)",
    needs: NEEDS,
    cases: |effort| cases(effort, Script::TpcB),
    ..Scenario::DEFAULT
};

#[derive(Clone, Copy)]
enum Script {
    Select,
    TpcB,
}

impl Script {
    fn option(self) -> &'static str {
        match self {
            Script::Select => "-S",
            Script::TpcB => "-b tpcb-like",
        }
    }

    /// What kernel TCP does on a slow machine.
    fn per_second(self) -> f64 {
        match self {
            Script::Select => 20e3,
            Script::TpcB => 2e3,
        }
    }

    /// Each transaction of TPC-B changes one of so many branches: with one, the clients would wait for
    /// each other's locks.
    fn scale(self) -> u32 {
        match self {
            Script::Select => 1,
            Script::TpcB => 8,
        }
    }
}

struct Transactions {
    script: Script,
    clients: u32,
}

fn cases(effort: Effort, script: Script) -> Vec<Box<dyn Case>> {
    effort.cases(&[4], &[1, 4], |clients| Transactions { script, clients })
}

impl Case for Transactions {
    fn lines(&self) -> Vec<Line> {
        let label = count_text(self.clients.into(), "client");
        let unit = Unit::PerSecond("transactions");
        vec![Line::new(label, unit, Per::Million)]
    }

    fn references(&self) -> Vec<Contender> {
        vec![Contender::Unix]
    }

    fn run(&self, bout: &Bout) -> Result<Reading, String> {
        let cluster = Cluster::new(bout.stage, self.script.scale())?;
        let (script, clients) = (self.script.option(), self.clients);
        let each = bout.count(self.script.per_second() / f64::from(clients), 50.0);
        let ran = cluster.ask(bout, &format!("{script} -n -j 1 -c {clients} -t {each}"))?;
        let transactions = each * f64::from(clients);
        Ok(Reading::new(parse(&ran.output)?, ran, transactions / 1e6))
    }
}

/// A folder with a filled database.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    /// The one of this comparison that has so many branches; made and filled at its first use.
    fn new(stage: &Stage, scale: u32) -> Result<Cluster, String> {
        let folder = stage.folder().join(format!("postgres-{scale}"));
        let cluster = Cluster { folder };
        if !cluster.folder.exists() {
            cluster.fill(stage, scale).inspect_err(|_| {
                // The next run begins anew; what cannot be removed goes with the work folder.
                let _ = fs::remove_dir_all(&cluster.folder);
            })?;
        }
        Ok(cluster)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn fill(&self, stage: &Stage, scale: u32) -> Result<(), String> {
        make_folder(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let how = How {
            contender: Contender::Kernel,
            placement: Placement::Scheduler,
        };
        let bout = Bout::new(&how, stage)?;
        let words = "-A trust -N -E UTF8 --locale=C -U postgres -D";
        let mut initdb = self.as_user(bout.server("initdb", words)?);
        stage.prepare(initdb.arg(self.data()))?;
        self.admit(bout.fill("{host}"))
            .map_err(|error| format!("pg_hba.conf: {error}"))?;
        self.ask(&bout, &format!("-i -q -s {scale}")).map(drop)
    }

    /// Lets everybody in who is on a network with `host`; it knows the loopback's already.
    fn admit(&self, host: String) -> std::io::Result<()> {
        let path = self.data().join("pg_hba.conf");
        let mut file = fs::OpenOptions::new().append(true).open(path)?;
        writeln!(file, "host all all {host}/24 trust")
    }

    /// Starts the server, and pgbench with these words.
    fn ask(&self, bout: &Bout, words: &str) -> Result<Ran, String> {
        let (server, mut client) = (self.server(bout)?, bout.client("pgbench", "-U postgres")?);
        match bout.over_unix() {
            true => client.arg("-h").arg(&self.folder),
            false => client.args(["-h", &bout.fill("{host}"), "-p", &bout.fill("{port}")]),
        };
        client.args(words.split_whitespace()).arg("postgres");
        let ready = Ready::Says("ready to accept connections");
        // Its fast shutdown: clients that are still there are disconnected.
        bout.fight_once(ready, server, client, Stop::Signal(Signal::INT))
    }

    fn server(&self, bout: &Bout) -> Result<Command, String> {
        let mut server = self.as_user(bout.server("postgres", "-c fsync=off -D")?);
        server.arg(self.data());
        if bout.how.contender.has_library() {
            server.env("LD_PRELOAD", bout.stage.shared_library()?);
        }
        let mut set = |setting: String| {
            server.args(["-c", &setting]);
        };
        if bout.over_unix() {
            set("listen_addresses=".to_owned());
            set(format!("unix_socket_directories={}", self.folder.display()));
        } else {
            set(bout.fill("listen_addresses={host}"));
            set(bout.fill("port={port}"));
            set("unix_socket_directories=".to_owned());
        }
        Ok(server)
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
