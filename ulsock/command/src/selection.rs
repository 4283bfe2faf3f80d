//! Which connections a subcommand is about.

use std::net::IpAddr;

use clap::Args;
use rendezvous::config::Config;
use sockets::observe::{Endpoint, ProgramRow, Reach};

use crate::failure::Failure;
use crate::preload;

#[derive(Args, Clone, Debug, Default)]
pub struct Selection {
    /// Only programs with this in their name
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Only this process
    #[arg(long)]
    pid: Option<u32>,
    /// Only connections with this address at either end
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Only connections with this port at either end
    #[arg(long)]
    port: Option<u16>,
    /// Also programs with other run directories, as in containers
    #[arg(long)]
    all: bool,
}

/// Which programs a subcommand is about.
#[derive(Args, Clone, Debug, Default)]
pub struct ProgramSelection {
    /// Only programs with this in their name
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Only the program of this process, with those that it has forked
    #[arg(long)]
    pid: Option<u32>,
    /// Also programs with other run directories, as in containers
    #[arg(long)]
    all: bool,
}

impl From<&ProgramSelection> for Selection {
    fn from(programs: &ProgramSelection) -> Selection {
        Selection {
            program: programs.program.clone(),
            pid: programs.pid,
            all: programs.all,
            ..Selection::default()
        }
    }
}

/// Where programs are looked for. All only if asked for: an order or a capture shall not reach into containers unasked,
/// and root's list shall not differ from a user's by more than whose programs it has.
pub fn reach(all: bool, config: &Config) -> Result<Reach, Failure> {
    match all {
        true => Ok(Reach::All),
        false => Ok(Reach::of(&preload::open_run_dir(config)?)),
    }
}

impl Selection {
    pub fn reach(&self, config: &Config) -> Result<Reach, Failure> {
        reach(self.all, config)
    }

    /// The process that is asked for.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub fn has_program(&self, pid: u32, program: &str) -> bool {
        self.pid.is_none_or(|it| it == pid)
            && self.program.as_ref().is_none_or(|it| program.contains(it))
    }

    /// The program, or one of its processes that has a connection.
    pub fn has_any(&self, row: &ProgramRow) -> bool {
        let mut connections = row.connection_rows.iter();
        self.has_program(row.pid, &row.program)
            || connections.any(|it| self.has_program(it.pid, &it.program))
    }

    pub fn has(&self, pid: u32, program: &str, ends: [Option<Endpoint>; 2]) -> bool {
        let ends = || ends.into_iter().flatten().filter_map(Endpoint::inet);
        self.has_program(pid, program)
            && self
                .address
                .is_none_or(|it| ends().any(|end| end.ip().to_canonical() == it.to_canonical()))
            && self
                .port
                .is_none_or(|it| ends().any(|end| end.port() == it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_asked_for_must_fit() {
        let ends = ["127.0.0.1:80", "[::ffff:10.0.0.1]:999"];
        let ends = ends.map(|end| Some(Endpoint::Inet(end.parse().unwrap())));
        let selection = Selection {
            program: Some("edis".to_owned()),
            address: Some("10.0.0.1".parse().unwrap()),
            port: Some(80),
            ..Selection::default()
        };
        assert!(selection.has(7, "redis-server", ends));
        assert!(!selection.has(7, "nginx", ends));
        assert!(!selection.has(7, "redis-server", [ends[0], None]));
        assert!(Selection::default().has(7, "any", [None, None]));
    }
}
