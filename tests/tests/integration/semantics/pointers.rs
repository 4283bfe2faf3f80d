//! Bad pointers: EFAULT where the kernel says so, and the program's own faults are its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Ends, Place, Side, c_program, kernel_only, same_as_kernel_by_both};

#[test]
fn of_every_call_on_everything() {
    same_as_kernel_by_both("pointers", "", &["auto"]);
}

/// Then nothing of the program's memory is read but by the kernel.
#[test]
fn without_any_connection() {
    let place = Place::new(Ends::Kernel);
    let program = c_program("pointers", &place);
    let kernel = place.client(&program).args("without").run();
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    assert_eq!(place.client(&program).args("without").run(), kernel);
    place.check_quiet();
}

#[test]
fn faults_of_the_program_itself() {
    same_as_kernel_by_both("segv", "", &["auto"]);
}

fn java_program(place: &Place) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/Nulls.java");
    let folder = place.folder().join("classes");
    let mut compiler = Command::new("javac");
    let status = compiler.arg("-d").arg(&folder).arg(source).status();
    assert!(status.expect("javac").success());
    folder
}

/// Java's virtual machine has handlers for SIGSEGV of its own, and checks that they stay.
#[test]
fn beside_java() {
    if Command::new("javac").arg("-version").output().is_err() {
        eprintln!("no Java here");
        return;
    }
    let mut printed = Vec::new();
    for ends in [Ends::Kernel, Ends::Both] {
        if ends == Ends::Both && kernel_only() {
            return;
        }
        let place = Place::new(ends).eager();
        let classes = java_program(&place);
        let java = place.client("java").args("-Xcheck:jni -Xss512k -cp");
        printed.push(java.arg(&classes).arg("Nulls").run());
        place.check_quiet();
        if ends == Ends::Both {
            assert!(place.report(Side::Client).0.upgraded > 0);
        }
    }
    assert_eq!(printed[0], printed[1]);
    assert!(printed[0].contains("caught "), "{}", printed[0]);
}
