//! The integration tests, a folder per group and a file per subject: real programs and our own small ones, with both
//! ends and with one end under ulsock. `tests/run` builds what they need and runs them, subject by subject.

mod costs;
mod hosts;
mod native;
mod programs;
mod safety;
mod semantics;
mod tooling;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::ends::{Ends, Side, kernel_only};
use tests::pattern;
use tests::place::{Place, Rings};

/// A script of `tests/scripts`.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scripts")
        .join(name)
}

/// Compiles a program of `tests/c` into the work folder; its path.
fn c_program(name: &str, place: &Place) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("c/{name}.c"));
    let program = place.folder().join(name);
    let compiler = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&program, &source])
        .output()
        .expect("cc runs");
    let errors = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{name}: {errors}");
    program.to_string_lossy().into_owned()
}

/// Runs a program of `tests/c` on kernel TCP and then, with each way of spinning, accelerated: it must
/// print the same. Most bytes must go by rings.
fn same_as_kernel(name: &str, arguments: &str, spins: &[&str]) {
    compare_with_kernel(name, arguments, spins, Rings::Most);
}

/// The same for a program that does what returns connections to the kernel.
fn same_as_kernel_by_both(name: &str, arguments: &str, spins: &[&str]) {
    compare_with_kernel(name, arguments, spins, Rings::Some);
}

fn compare_with_kernel(name: &str, arguments: &str, spins: &[&str], rings: Rings) {
    let place = Place::new(Ends::Kernel);
    let program = c_program(name, &place);
    let kernel = place.client(&program).args(arguments).run();
    if kernel_only() {
        return;
    }
    for spin in spins {
        let place = Place::new(Ends::Both).eager().with("ULSOCK_SPIN_US", spin);
        let accelerated = place.client(&program).args(arguments).run();
        assert_eq!(accelerated, kernel, "{name} with ULSOCK_SPIN_US={spin}");
        place.check_quiet();
        let (report, _) = place.report(Side::Client);
        let wanted = match rings {
            Rings::Most => report.kernel_bytes(),
            _ => 0,
        };
        assert!(
            report.upgraded > 0 && report.ring_bytes() > wanted,
            "{name} with ULSOCK_SPIN_US={spin}: {report:?}"
        );
    }
}

/// The same for a program whose connections stay on the kernel, and whose waits there are awake for a millisecond.
fn same_as_kernel_while_awake(name: &str, arguments: &str) {
    let place = Place::new(Ends::Kernel);
    let program = c_program(name, &place);
    let kernel = place.client(&program).args(arguments).run();
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both)
        .with("ULSOCK_UPGRADE_AFTER", "1000000")
        .with("ULSOCK_SPIN_US", "1000");
    let awake = place.client(&program).args(arguments).run();
    assert_eq!(awake, kernel, "{name}, awake");
    place.check_quiet();
    let (report, _) = place.report(Side::Client);
    assert!(
        report.ring_bytes() == 0 && report.kernel_bytes() > 0,
        "{name}, awake: {report:?}"
    );
}

/// Writes a file with `length` bytes of the pattern.
fn pattern_file(path: &Path, length: usize) {
    let mut bytes = vec![0; length];
    pattern::fill(0, 0, &mut bytes);
    fs::write(path, bytes).expect("write a file");
}

/// Demands that two files have the same content.
fn same_content(left: &Path, right: &Path) {
    let [left_bytes, right_bytes] = [left, right].map(|path| fs::read(path).expect("read a file"));
    assert_eq!(left_bytes.len(), right_bytes.len(), "length of {right:?}");
    assert!(left_bytes == right_bytes, "{left:?} and {right:?} differ");
}
