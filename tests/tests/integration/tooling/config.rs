//! Bad configuration: one clear line on stderr, and the program works on kernel TCP; `ulsock run`
//! refuses to start it.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use tests::ends::{Ends, Side, kernel_only};
use tests::place::Place;
use tests::ports;
use tests::program::{Finished, Program, built};

/// A variable, a bad value (FOLDER is the work folder), and what the complaint must name.
struct Case {
    name: &'static str,
    value: &'static str,
    complaint: &'static str,
}

const fn case(name: &'static str, value: &'static str, complaint: &'static str) -> Case {
    Case {
        name,
        value,
        complaint,
    }
}

const CASES: &[Case] = &[
    case("ULSOCK_FOO", "1", "ULSOCK_FOO"),
    case("ULSOCK", "maybe", "maybe"),
    case("ULSOCK_UPGRADE_AFTER", "soon", "ULSOCK_UPGRADE_AFTER"),
    case("ULSOCK_SPIN_US", "banana", "ULSOCK_SPIN_US"),
    case("ULSOCK_RING", "-5", "ULSOCK_RING"),
    case("ULSOCK_PROFILE", "warp", "ULSOCK_PROFILE"),
    case("ULSOCK_CHAOS", "many", "ULSOCK_CHAOS"),
    case("ULSOCK_GUARD", "maybe", "ULSOCK_GUARD"),
    case("ULSOCK_DRAG", "much", "ULSOCK_DRAG"),
    case("ULSOCK_LATE", "2s", "ULSOCK_LATE"),
    case("ULSOCK_DIE", "young", "ULSOCK_DIE"),
    case("ULSOCK_CLUSTER", "300.1.2.3/8", "ULSOCK_CLUSTER"),
    case("ULSOCK_RUN_DIR", "FOLDER/file", "FOLDER/file"),
    case("ULSOCK_RUN_DIR", "FOLDER/link", "FOLDER/link"),
    case("ULSOCK_RUN_DIR", "FOLDER/foreign", "FOLDER/foreign"),
    case("ULSOCK_RUN_DIR", "/dev/null/ulsock", "/dev/null/ulsock"),
    case("ULSOCK_RUN_DIR", "/proc/1/ulsock", "/proc/1/ulsock"),
];

/// A Python program with a connection of its own.
const CONNECTION: &str = "import socket
server = socket.create_server(('127.0.0.1', 0))
socket.create_connection(server.getsockname())";

const FOREIGNER: u32 = 65_534;

/// A place with run directories that must not be used.
fn place() -> Place {
    let place = Place::new(Ends::both());
    let folder = place.folder();
    fs::write(folder.join("file"), "").expect("file");
    fs::create_dir(folder.join("target")).expect("target");
    symlink(folder.join("target"), folder.join("link")).expect("link");
    fs::create_dir(folder.join("foreign")).expect("foreign");
    chown(folder.join("foreign"), Some(FOREIGNER), None).expect("chown");
    place
}

fn complaints(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.starts_with("ulsock:"))
        .collect()
}

/// Exactly one complaint, and it names the trouble.
fn check_complaint(finished: &Finished, case: &Case, folder: &Path) {
    let named = in_folder(case.complaint, folder);
    let lines = complaints(&finished.errors);
    assert!(
        lines.len() == 1 && lines[0].contains(&named),
        "{}={}: one line that names {named:?}, not {:?}",
        case.name,
        case.value,
        finished.errors
    );
}

fn in_folder(text: &str, folder: &Path) -> String {
    text.replace("FOLDER", &folder.display().to_string())
}

#[test]
fn programs_complain_and_work() {
    for case in CASES {
        let place = place();
        let port = ports::free();
        let program = |side, name, arguments: &str| -> Program {
            let program = place.own(side, name).args(arguments);
            let program = program.args(&format!("port={port}"));
            if kernel_only() {
                return program;
            }
            program.env(case.name, in_folder(case.value, place.folder()))
        };
        let server = program(Side::Server, "echo_threads", "conns=3").start();
        let server = server.listening(port);
        let client = program(Side::Client, "echo_client", "conns=3 rounds=100");
        for finished in [client.start().wait(), server.wait()] {
            assert!(finished.status.success(), "{}", finished.errors);
            if !kernel_only() {
                check_complaint(&finished, case, place.folder());
            }
        }
        for side in [Side::Server, Side::Client] {
            assert_eq!(
                place.report(side).0.upgraded,
                0,
                "{}={}",
                case.name,
                case.value
            );
        }
    }
}

#[test]
fn the_command_refuses_to_start() {
    for case in CASES.iter().filter(|_| !kernel_only()) {
        let place = place();
        let log = place.folder().join("run");
        let finished = Program::new(built("ulsock"), &log)
            .without_ulsock()
            .args("run -- echo started")
            .env("ULSOCK_RUN_DIR", place.run_dir())
            .env(case.name, in_folder(case.value, place.folder()))
            .start()
            .wait();
        assert_eq!(
            finished.status.code(),
            Some(2),
            "{}={}",
            case.name,
            case.value
        );
        assert_eq!(finished.output, "", "{}={}", case.name, case.value);
        check_complaint(&finished, case, place.folder());
    }
}

#[test]
fn a_run_directory_that_only_root_writes() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::both());
    let run_dir = place.folder().join("roots");
    fs::create_dir(&run_dir).expect("run directory");
    let finished = place
        .server("/usr/bin/python3")
        .user("www-data")
        .env("ULSOCK_RUN_DIR", &run_dir)
        .arg("-c")
        .arg(CONNECTION)
        .start()
        .wait();
    assert!(finished.status.success(), "{}", finished.errors);
    let complaint = "roots: uid 33 may not write there: give it mode 1777";
    assert!(finished.errors.contains(complaint), "{}", finished.errors);
}

#[test]
fn turned_off() {
    let place = Place::new(Ends::both()).with("ULSOCK", 0);
    let port = ports::free();
    let start = |side, name, arguments: &str| {
        let program = place.own(side, name).args(arguments);
        program.args(&format!("port={port}")).start()
    };
    let server = start(Side::Server, "echo_threads", "conns=3").listening(port);
    start(Side::Client, "echo_client", "conns=3 rounds=100").succeed();
    server.succeed();
    place.check_quiet();
    for side in [Side::Server, Side::Client] {
        assert_eq!(place.report(side).0.upgraded, 0);
    }
}
