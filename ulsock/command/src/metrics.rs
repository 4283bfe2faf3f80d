//! `ulsock metrics`: what `ulsock stats` knows and what the daemon knows, for Prometheus.

mod exposition;
mod nicd;
mod programs;
mod server;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use sockets::observe::Reach;

use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use exposition::{Exposition, Kind};
use programs::Programs;

/// Programs that have begun are looked for this often; those that end before are not counted.
const FIND: Duration = Duration::from_secs(2);
const DEFAULT: &str = "127.0.0.1:9464";

#[derive(Args)]
pub struct MetricsOptions {
    /// Where to serve http://ADDRESS/metrics
    ///
    /// Whoever can connect there can read the names of the programs and how much they carry.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT)]
    listen: SocketAddr,
    /// Print what would be served, and exit
    #[arg(long)]
    once: bool,
    /// Also programs with other run directories, as in containers
    #[arg(long)]
    all: bool,
}

pub fn run(options: &MetricsOptions) -> Outcome {
    descriptors::have_all();
    let config = preload::configuration()?;
    let reach = crate::selection::reach(options.all, &config)?;
    if options.once {
        let mut programs = Programs::default();
        programs.find(&reach);
        crate::print::all(&text(&mut programs, &config.run_dir))?;
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::bind(options.listen)?;
    crate::print::all(&format!("serving http://{}/metrics\n", server.address()))?;
    server.serve(reach, &config.run_dir);
    Ok(ExitCode::SUCCESS)
}

/// It has its address already.
pub struct Server {
    listener: server::Listener,
}

impl Server {
    pub fn bind(address: SocketAddr) -> Result<Server, Failure> {
        let listener = server::Listener::bind(address).map_err(|why| {
            Failure::setup(format!(
                "cannot serve metrics at {address}: {why}; choose another address"
            ))
        })?;
        Ok(Server { listener })
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// For ever.
    pub fn serve(self, reach: Reach, path: &Path) {
        let programs = Arc::new(Mutex::new(Programs::default()));
        let found = Arc::clone(&programs);
        let path = path.to_owned();
        let finder = std::thread::Builder::new().name("metrics".to_owned());
        let finder = finder.spawn(move || {
            loop {
                lock(&found).find(&reach);
                std::thread::sleep(FIND);
            }
        });
        if let Err(why) = finder {
            eprintln!("ulsock: cannot start a thread for the metrics: {why}");
            return;
        }
        self.listener
            .serve(&move || text(&mut lock(&programs), &path));
    }
}

/// Whoever held it and panicked has left counts, which are right or wrong by one.
fn lock(programs: &Mutex<Programs>) -> std::sync::MutexGuard<'_, Programs> {
    programs.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(programs: &mut Programs, run_dir: &Path) -> String {
    let mut all = Exposition::default();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    let about = "The version of ulsock that serves this.";
    all.family("ulsock_build_info", Kind::Gauge, about)
        .sample(&version, 1.0);
    programs.show(&mut all);
    if let Ok(status) = ::nicd::ask(run_dir) {
        nicd::show(&status, &mut all);
    }
    all.text()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A dashboard that asks for what nobody serves shows nothing.
    #[test]
    fn what_the_dashboard_shows_is_served() {
        let mut all = Exposition::default();
        Programs::default().show(&mut all);
        nicd::show(&::nicd::Status::default(), &mut all);
        let page = all.text();
        let served: BTreeSet<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .chain(["ulsock_build_info"])
            .collect();
        let dashboard = include_str!("../../../docs/grafana.json");
        let is_name = |it: char| it.is_ascii_lowercase() || it == '_';
        let words = dashboard.split(|it| !is_name(it));
        let asked: BTreeSet<&str> = words.filter(|it| it.starts_with("ulsock_")).collect();
        let missing: Vec<_> = asked.difference(&served).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(asked.len() > 10, "{asked:?}");
    }
}
