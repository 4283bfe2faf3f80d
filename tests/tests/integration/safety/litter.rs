//! What killed processes leave in the run directory is gone when the next ulsock process starts; and what somebody does
//! to the files there ends nobody.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::ports;
use tests::program::Running;

use crate::same_as_kernel_by_both;

const CONNECTIONS: usize = 5;

/// Entries of the run directory that belong to one process.
fn entries(run_dir: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(run_dir).into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("mail."))
        .collect()
}

/// A server and a client with idle connections between them.
fn pair(place: &Place) -> [Running; 2] {
    let port = ports::free();
    let server = place
        .own(Side::Server, "echo_epoll")
        .args(&format!("port={port}"))
        .piped()
        .start()
        .listening(port);
    let options = format!("port={port} conns={CONNECTIONS} rounds=30 wait=poll");
    let mut client = place.own(Side::Client, "idle").args(&options).start();
    client.prints("idle");
    [server, client]
}

#[test]
fn is_swept_by_the_next_process() {
    let place = Place::new(Ends::both());
    let killed = pair(&place);
    for program in &killed {
        program.signal(libc::SIGKILL);
    }
    for program in killed {
        program.wait();
    }
    let left = entries(place.run_dir());
    assert_eq!(left.is_empty(), place.ends() == Ends::Kernel, "{left:?}");
    let [mut server, client] = pair(&place);
    let now = entries(place.run_dir());
    let still: Vec<&String> = left.intersection(&now).collect();
    assert!(still.is_empty(), "litter: {still:?}");
    server.tell("poke\n");
    client.succeed();
    server.succeed();
    assert_eq!(
        entries(place.run_dir()),
        BTreeSet::new(),
        "left by a proper exit"
    );
}

#[test]
fn spoilt_files_end_no_program() {
    same_as_kernel_by_both("spoilt", "", &["auto", "0"]);
}
