//! What ulsock needs is not there, or runs out at any stage: descriptors, address space, room in the run
//! directory, the right to write files, a known user. The programs work as on kernel TCP.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;
use tests::program::{Finished, built};
use tests::report::Report;

/// Both ends are started by the shell, after these words of its own; what they left, and what they
/// reported together.
fn run(place: &Place, before: &str, run_dir: Option<&Path>) -> ([Finished; 2], Report) {
    let port = ports::free();
    let start = |side, name: &str, more: &str| {
        let program = place.program(side, "/bin/sh").arg("-c");
        let program = program
            .arg(format!("{before} \"$0\" \"$@\""))
            .arg(built(name));
        let program = program.args(&format!("port={port} conns=20")).args(more);
        match run_dir.filter(|_| place.ends() == Ends::Both) {
            Some(dir) => program.env("ULSOCK_RUN_DIR", dir),
            None => program,
        }
    };
    let server = start(Side::Server, "echo_threads", "").start();
    let server = server.listening(port);
    let client = start(Side::Client, "echo_client", "rounds=100 max=20000").start();
    let finished = [client.wait(), server.wait()];
    for one in &finished {
        assert!(one.status.success(), "{before}: {}", one.errors);
    }
    (finished, place.report(Side::Client).0)
}

/// Falls back in silence; `rings`: at least some.
fn quietly(before: &str, rings: bool) {
    let place = Place::new(Ends::both()).eager();
    let (_, report) = run(&place, before, None);
    place.check_quiet();
    if place.ends() == Ends::Both {
        assert_eq!(report.ring_bytes() > 0, rings, "{before}: {report:?}");
    }
}

/// With as few as the program needs without us, and with some for us.
#[test]
fn descriptors() {
    quietly("ulimit -n 25; exec", false);
    quietly("ulimit -n 63; exec", false);
    quietly("ulimit -n 64; exec", true);
}

#[test]
fn address_space() {
    quietly("ulimit -v 2000000; exec", false);
    quietly("ulimit -v 8000000; exec", false);
}

/// Beyond this limit the kernel would send a signal that kills: also when the report is written.
#[test]
fn files() {
    let place = Place::new(Ends::both()).eager();
    for blocks in [0, 1, 8, 100_000] {
        let (_, report) = run(&place, &format!("ulimit -f {blocks}; exec"), None);
        assert_eq!(report.ring_bytes(), 0, "{blocks}: {report:?}");
    }
    quietly("ulimit -f 2000000; exec", true);
}

/// In a user namespace that knows no user everybody is the same stranger.
#[test]
fn users() {
    quietly("exec unshare --user", false);
    quietly("exec unshare --user --map-root-user", true);
}

/// A run directory with so much room, and what is mounted there is gone again with it.
struct Room(PathBuf);

impl Room {
    fn new(place: &Place, options: &str) -> Room {
        let folder = place.folder().join("room");
        std::fs::create_dir_all(&folder).expect("a folder");
        let mount = ["-t", "tmpfs", "-o", options, "none"];
        let done = Command::new("mount").args(mount).arg(&folder).status();
        assert!(done.expect("mount").success());
        Room(folder)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// It is full from the first file on, or later, at every page that is asked for.
#[test]
fn room_in_the_run_directory() {
    for pages in [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 200] {
        let place = Place::new(Ends::both()).eager();
        let room = Room::new(&place, &format!("mode=1777,size={}", pages * 4096));
        let (_, report) = run(&place, "exec", Some(&room.0.join("run")));
        if pages == 200 && place.ends() == Ends::Both {
            assert_eq!(report.upgraded, 20, "{report:?}");
        }
    }
}

/// One line says so.
#[test]
fn a_run_directory_that_cannot_be_written() {
    let place = Place::new(Ends::both()).eager();
    let room = Room::new(&place, "ro,mode=1777");
    let (finished, _) = run(&place, "exec", Some(&room.0.join("run")));
    for one in finished.iter().filter(|_| place.ends() == Ends::Both) {
        assert_eq!(one.errors.lines().count(), 1, "{}", one.errors);
        assert!(
            one.errors.contains("Read-only file system"),
            "{}",
            one.errors
        );
    }
}
