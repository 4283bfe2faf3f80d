//! Readiness on rings is what it is on kernel TCP, event by event.

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::program::built;

/// Their connections must stay on the kernel, or are none.
const QUIET: [&str; 4] = [
    "early::young_member_kept_over_exec",
    "states::never_connected",
    "sets::twin_shots",
    "processes::young_members_of_a_daemon",
];

/// A scenario's transcript, and whether rings carried anything.
fn transcript(ends: Ends, scenario: &str) -> String {
    let place = Place::new(ends).eager();
    let program = place.own(Side::Server, "readiness").arg(scenario);
    let text = program.limit(60).run();
    let (report, _) = place.report(Side::Server);
    if ends == Ends::Both && !QUIET.contains(&scenario) {
        assert!(report.ring_bytes() > 0, "{scenario}: {report:?}");
    }
    place.check_quiet();
    text
}

/// The lines that differ, with what stands before them.
fn differences(kernel: &str, ours: &str) -> String {
    let mut text = String::new();
    let (kernel, ours): (Vec<_>, Vec<_>) = (kernel.lines().collect(), ours.lines().collect());
    for line in 0..kernel.len().max(ours.len()) {
        let (left, right) = (kernel.get(line), ours.get(line));
        if left != right {
            let before = line.checked_sub(1).and_then(|line| kernel.get(line));
            text += &format!(
                "  line {line}, after {before:?}\n    kernel {left:?}\n    ours   {right:?}\n"
            );
        }
    }
    text
}

fn scenarios() -> Vec<String> {
    let list = std::process::Command::new(built("readiness"))
        .arg("list")
        .output();
    let list = String::from_utf8(list.expect("readiness list").stdout).expect("text");
    list.lines().map(str::to_owned).collect()
}

fn compare(module: &str) {
    let mut failed = String::new();
    for scenario in scenarios().iter().filter(|name| name.starts_with(module)) {
        let kernel = transcript(Ends::Kernel, scenario);
        let ours = transcript(Ends::both(), scenario);
        if kernel != ours {
            failed += &format!("{scenario}:\n{}", differences(&kernel, &ours));
        }
    }
    assert!(
        failed.is_empty(),
        "not the same as on the kernel:\n{failed}"
    );
}

#[test]
fn states_of_a_connection() {
    compare("states::");
}

#[test]
fn level_edge_and_one_shot() {
    compare("triggers::");
}

#[test]
fn sets_and_numbers() {
    compare("sets::");
    compare("nested::");
    compare("numbers::");
    compare("removed::");
}

#[test]
fn registered_before_the_connection() {
    compare("early::");
}

#[test]
fn turns_and_timeouts() {
    compare("fairness::");
}

#[test]
fn order_of_events() {
    compare("order::");
}

#[test]
fn threads() {
    compare("threads::");
}

#[test]
fn processes() {
    compare("processes::");
}

/// Random activity in several sets at once, with connections that move early, late and all the time.
#[test]
fn random_mixture() {
    for (seed, (after, chaos)) in [(0, 0), (0, 100), (0, 400), (1, 50), (8, 0), (8, 200)]
        .into_iter()
        .enumerate()
    {
        let place = Place::new(Ends::both())
            .with("ULSOCK_UPGRADE_AFTER", after)
            .with("ULSOCK_CHAOS", chaos);
        let program = place.own(Side::Server, "mixture");
        program.args(&format!("seed={seed} steps=4000")).run();
        let (report, _) = place.report(Side::Server);
        if place.ends() == Ends::Both {
            assert!(report.ring_bytes() > 0, "{report:?}");
        }
        place.check_quiet();
    }
}
