//! CPython's own test suite: one run of one of its modules, and the outcome of every test in it.
//!
//! Each run is a process of its own in a network namespace of its own, because some modules change
//! settings of the network, and because ports are then free whatever runs beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::ends::Ends;
use crate::place::Place;

/// Debian's interpreter, whose package libpython3.11-testsuite holds the suite.
const PYTHON: &str = "/usr/bin/python3.11";
/// Brings the new namespace's loopback up, then becomes the interpreter.
const IN_NAMESPACE: &str = "ip link set lo up && exec \"$@\"";
/// The slowest module takes a minute on a busy machine.
const LIMIT: u64 = 300;

/// How often each test had which outcome, by outcome and name: `pass test.test_socket...`.
pub type Outcomes = BTreeMap<String, u32>;

/// Runs `module` with the ends and settings of `place`.
pub fn run(place: &Place, module: &str) -> Outcomes {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/cpython_suite.py");
    let file = place.folder().join("outcomes");
    let program = place
        .client("unshare")
        .args("--net sh -c")
        .arg(IN_NAMESPACE);
    let program = program.arg("sh").arg(PYTHON).arg(script).arg(module);
    let finished = program.arg(&file).limit(LIMIT).start().wait();
    assert!(
        finished.status.success(),
        "{module}, {:?}: {}\n{}",
        place.ends(),
        finished.status,
        finished.errors
    );
    let text = fs::read_to_string(&file).expect("outcomes");
    let mut outcomes = Outcomes::new();
    for line in text.lines() {
        // Behind them stands the reason of a skip.
        let words: Vec<&str> = line.splitn(3, ' ').take(2).collect();
        *outcomes.entry(words.join(" ")).or_default() += 1;
    }
    assert!(!outcomes.is_empty(), "{module} has no test");
    outcomes
}

/// One run on kernel TCP: what is to be expected.
pub fn on_kernel(module: &str) -> Outcomes {
    run(&Place::new(Ends::Kernel), module)
}

/// What stands in one of the two only.
pub fn difference(left: &Outcomes, right: &Outcomes) -> Vec<String> {
    let only = |left: &Outcomes, right: &Outcomes| -> Vec<String> {
        let differs = |name: &&String| left.get(*name) != right.get(*name);
        left.keys().filter(differs).cloned().collect()
    };
    let mut all = only(left, right);
    all.extend(only(right, left));
    all.sort();
    all.dedup();
    all
}
