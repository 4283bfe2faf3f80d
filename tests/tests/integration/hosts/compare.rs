//! `ulsock compare --hosts`: every scenario that can be between hosts, and that no host outlives it.

use tests::ends::{Ends, kernel_only};
use tests::place::Place;
use tests::program::built;
use tests::{procfs, wait};

use crate::tooling::compare::{assert_measured, compare, json, litter};

/// All but those that always take a second for each run.
const SCENARIOS: &str = "ping-pong,stream,netpipe,redis,memcached,nginx-short,pgbench,churn";

#[test]
fn scenarios() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let program = compare(&place).args("--hosts --runs 1 --seconds 0.02 --json --only");
    let (report, finished) = json(&place, program.arg(SCENARIOS));
    assert_eq!(finished.status.code(), Some(0), "{report}");
    assert_measured(&report, SCENARIOS);
    assert_eq!(report["hosts"], true);
}

/// The user's own programs find each other by `{host}` and `{port}`.
#[test]
fn own_programs() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let program = compare(&place).args("--hosts --runs 1 --json --");
    let program = program.args("iperf3 -s -1 -p {port} --");
    let program = program.args("iperf3 -c {host} -p {port} -n 20M");
    let (report, _) = json(&place, program);
    assert_measured(&report, "own");
}

#[test]
fn what_is_wrong_is_said() {
    let place = Place::new(Ends::both());
    for (arguments, said) in [
        ("--hosts --only memory", "no scenario memory"),
        ("--hosts --only nonsense", "no scenario nonsense"),
    ] {
        let finished = compare(&place).args(arguments).start().wait();
        assert_eq!(finished.status.code(), Some(2), "{}", finished.errors);
        assert!(finished.errors.contains(said), "{}", finished.errors);
    }
    // As a user who has no rights.
    let program = place.client("unshare").without("LD_PRELOAD").arg("-U");
    let finished = program
        .arg(built("ulsock"))
        .args("compare --hosts")
        .start()
        .wait();
    assert_eq!(finished.status.code(), Some(2), "{}", finished.errors);
    assert!(
        finished.errors.contains("needs root"),
        "{}",
        finished.errors
    );
    let list = compare(&place).args("--hosts --list").run();
    assert!(
        list.contains("ping-pong") && !list.contains("threads"),
        "{list}"
    );
}

/// Interrupted in the middle; namespaces live as long as a process is in one.
#[test]
fn nothing_outlives_it() {
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let place = Place::new(Ends::both());
        let program = compare(&place).args("--hosts --runs 1 --seconds 60 --only memcached");
        let mut running = program.start();
        let programs = || procfs::working_in(place.folder());
        running.until("both ends run", |_| programs().len() >= 2);
        running.stop(signal);
        wait::until("all its programs have ended", || programs().is_empty());
        wait::until("its folders are gone", || litter(&place).is_empty());
    }
}
