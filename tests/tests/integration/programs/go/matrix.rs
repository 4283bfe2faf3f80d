//! Each toolchain of `tests/programs/go/toolchains.txt` that `TESTS_GO` chooses: one small test of a program that it built,
//! against itself and against the newest; and the ways to link a program.

use tests::ends::{Ends, kernel_only};
use tests::go::{Linked, Toolchain, newest};
use tests::place::{Place, Rings};

use super::off::doctor;
use super::{talk, talk_client, talk_server};

const SUBJECTS: &str = "ping echo many half-close raw closed commands stacks";
/// For ways to link: that the program is served at all, and is the same when it is.
const FEW: &str = "ping echo closed commands faults";

#[test]
fn every_toolchain() {
    let newest = newest("talk");
    for toolchain in Toolchain::chosen() {
        let version = &toolchain.version;
        println!("Go {version}");
        let program = toolchain.program("talk", Linked::ByDefault);
        let kernel = talk(&Place::new(Ends::Kernel), &program, SUBJECTS);
        if kernel_only() {
            continue;
        }
        let place = Place::new(Ends::Both).eager();
        let ours = talk(&place, &program, SUBJECTS);
        assert_eq!(ours, kernel, "Go {version}");
        place.check(Rings::Most);
        // One version's server with another's client.
        let place = Place::new(Ends::Both).eager();
        let (port, server) = talk_server(&place, &program);
        let ours = talk_client(&place, &newest, port).args(SUBJECTS).run();
        assert_eq!(ours, kernel, "a server of Go {version}, the newest client");
        server.succeed();
        place.check(Rings::Most);
    }
}

/// The same on rings as on the kernel.
fn is_served(toolchain: &Toolchain, linked: Linked) {
    let program = toolchain.program("talk", linked);
    println!("{program:?}");
    let kernel = talk(&Place::new(Ends::Kernel), &program, FEW);
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    assert_eq!(talk(&place, &program, FEW), kernel, "{program:?}");
    match linked {
        // It ends inside the race detector's own C code, past all hooks, and writes no report.
        Linked::Race => place.check_quiet(),
        // Of `echo` the kernel's buffers can take half before the other end runs.
        _ => place.check(Rings::Some),
    }
    let said = doctor(&program);
    assert!(said.contains("by Go ("), "{program:?}: {said}");
}

#[test]
fn every_way_of_linking() {
    let newest = Toolchain::newest();
    for linked in [Linked::WithoutNote, Linked::WithoutNoteByC, Linked::Pie] {
        is_served(&newest, linked);
    }
}

#[test]
fn with_the_race_detector() {
    let mut chosen = Toolchain::chosen().into_iter();
    match chosen.find(Toolchain::has_race) {
        Some(toolchain) => is_served(&toolchain, Linked::Race),
        None => println!("none of the toolchains that TESTS_GO chooses has a race detector"),
    }
}
