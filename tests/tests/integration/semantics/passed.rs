//! Connections that are passed on by SCM_RIGHTS: they come back to rings when one process is left that holds them, and not
//! before. `tests/scripts/passed.py` has the ways; both ends check every byte.

use tests::ends::{Ends, Side};
use tests::place::{Place, Rings};
use tests::ports;

use crate::script;

/// Default settings; rings at once, so that it has some when it is passed; rings at the first call.
const SETTINGS: [Option<u32>; 3] = [None, Some(0), Some(1)];

fn run(kind: &str, after: Option<u32>) -> Place {
    let mut place = Place::new(Ends::both());
    if let Some(after) = after {
        place = place.with("ULSOCK_UPGRADE_AFTER", after);
    }
    let (port, script) = (ports::free(), script("passed.py"));
    let server = place.server("/usr/bin/python3").arg(&script).arg("serve");
    let server = server.arg(kind).arg(port.to_string()).start();
    let server = server.listening(port);
    let client = place.client("/usr/bin/python3").arg(&script).arg("call");
    assert_eq!(client.arg(port.to_string()).run(), "ok\n", "{kind}");
    server.succeed();
    place
}

fn come_back(kind: &str, settings: &[Option<u32>]) {
    for after in settings {
        run(kind, *after).check(Rings::Most);
    }
}

/// All but what came before it was passed.
fn stay(kind: &str) {
    for after in SETTINGS {
        let place = run(kind, after);
        place.check_quiet();
        let (report, _) = place.report(Side::Client);
        let few = report.ring_bytes() * 100 <= report.kernel_bytes();
        assert!(few, "{kind}, {after:?}: {report:?}");
    }
}

#[test]
fn that_one_process_is_left_with() {
    for kind in ["closed", "later", "onwards", "refused"] {
        come_back(kind, &SETTINGS);
    }
}

/// One that had rings before stays on the kernel in the process that has passed it on.
#[test]
fn that_were_given_back() {
    come_back("returned", &[None, Some(1)]);
}

#[test]
fn that_others_still_hold() {
    for kind in ["held", "duplicated", "to_two", "with_child", "with_program"] {
        stay(kind);
    }
}

/// A copy that nobody has counted.
#[test]
fn that_others_may_hold() {
    for kind in ["looked_at", "twofold", "by_stranger"] {
        stay(kind);
    }
}

#[test]
fn that_are_in_a_set_of_the_sender() {
    stay("watched");
}

#[test]
fn that_were_lost_on_the_way() {
    for kind in ["cut_off", "killed", "undone"] {
        stay(kind);
    }
}
