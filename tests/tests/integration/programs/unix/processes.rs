//! Processes of one program that talk to each other: Python's multiprocessing in its three ways to start a process, with
//! pipes, queues, pools, managers, listeners and descriptors that are handed on.

use tests::place::Rings;

use super::same_as_kernel_with;
use crate::script;

/// Both ends are children of one program, which is the client side.
fn python(method: &str) {
    same_as_kernel_with(Rings::Any, Rings::Any, |place| {
        let python = place.client("/usr/bin/python3").directory(place.folder());
        let python = python.arg(script("unix/processes.py")).arg(method);
        python.env("PYTHONDONTWRITEBYTECODE", "1").limit(60).run()
    });
}

#[test]
fn forked() {
    python("fork");
}

#[test]
fn spawned() {
    python("spawn");
}

#[test]
fn by_a_fork_server() {
    python("forkserver");
}
