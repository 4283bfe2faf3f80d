//! The connections of one process, by carrier and by reason; and the directory in which it meets others.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rendezvous::config::Config;
use rendezvous::reason::Reason;
use rendezvous::rundir::RunDir;
use sockets::observe::{self, Reach};

use super::Process;
use crate::doctor::findings::Findings;

pub fn tell(findings: &mut Findings, process: &Process, config: &Config) {
    findings.title("Connections");
    let path = process.within(&config.run_dir);
    let shown = config.run_dir.display();
    if !RunDir::exists(&path) {
        let missing = format!("{shown} is not there yet: nobody in it has had a TCP connection");
        return findings.tell("run directory", &missing);
    }
    let dir = match RunDir::open(&path) {
        Ok(dir) => dir,
        Err(why) => return findings.bad("run directory", &format!("{shown}: {why}")),
    };
    findings.well("run directory", &format!("{shown}{}", difference(&path)));
    tell_rows(findings, &Reach::of(&dir), process.pid);
}

/// From the one that this command uses itself.
fn difference(path: &Path) -> String {
    let Ok(own) = Config::from_env() else {
        return String::new();
    };
    let of = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    match of(path) == of(&own.run_dir) {
        true => String::new(),
        false => format!(
            " (another than {}, which this shell uses: programs meet in one only)",
            own.run_dir.display()
        ),
    }
}

fn tell_rows(findings: &mut Findings, reach: &Reach, pid: u32) {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for row in observe::live(reach)
        .into_iter()
        .filter(|row| row.pid == pid)
    {
        let carriers = match row.carrier_tx == row.carrier_rx {
            true => row.carrier_tx.to_owned(),
            false => format!("sends by {}, reads by {}", row.carrier_tx, row.carrier_rx),
        };
        let kind = match row.reason {
            "" => carriers,
            reason => format!(
                "{carriers}, reason `{reason}`: {}",
                Reason::meaning_of(reason)
            ),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    if kinds.is_empty() {
        return findings.note("none that are known: none are open, or ulsock is off in it");
    }
    for (kind, count) in kinds {
        let connections = if count == 1 {
            "connection"
        } else {
            "connections"
        };
        findings.note(&format!("{count} {connections}: {kind}"));
    }
}
