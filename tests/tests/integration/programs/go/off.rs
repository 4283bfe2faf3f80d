//! Programs of Go that stay on kernel TCP: static ones, which do not load the library, and those that `ULSOCK_GO=0` names.

use std::path::Path;
use std::process::Command;

use tests::ends::{Ends, Side, kernel_only};
use tests::go::{Linked, Toolchain, newest};
use tests::place::Place;
use tests::program::built;

use super::talk;

const SUBJECTS: &str = "ping echo relay closed handed stacks";

pub(super) fn doctor(program: &Path) -> String {
    let mut doctor = Command::new(built("ulsock"));
    let output = doctor.args(["doctor", "--"]).arg(program).output();
    let output = output.expect("ulsock doctor runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn static_programs() {
    let program = Toolchain::newest().program("talk", Linked::Statically);
    let kernel = talk(&Place::new(Ends::Kernel), &program, SUBJECTS);
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    assert_eq!(talk(&place, &program, SUBJECTS), kernel);
    place.check_quiet();
    assert_eq!(
        place.report(Side::Client).1,
        0,
        "a report without the library"
    );
    let said = doctor(&program);
    assert!(said.contains("static"), "{said}");
}

#[test]
fn switched_off() {
    let program = newest("talk");
    let kernel = talk(&Place::new(Ends::Kernel), &program, SUBJECTS);
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).with("ULSOCK_GO", 0);
    assert_eq!(talk(&place, &program, SUBJECTS), kernel);
    place.check_quiet();
    for side in [Side::Server, Side::Client] {
        let (report, _) = place.report(side);
        assert_eq!(report.upgraded, 0, "{side:?}: {report:?}");
    }
}
