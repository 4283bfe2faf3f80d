//! A daemon that another user has started: programs show it nothing of theirs.

use std::fs;

use tests::ends::kernel_only;
use tests::hosts::Hosts;
use tests::program::Running;

use super::containers::STRANGER;
use crate::script;

/// In the place of the first host's daemon, which is gone.
fn pretender(hosts: &Hosts, user: Option<&str>) -> Running {
    hosts.kill_nicd(0);
    let run_dir = hosts.host(0).run_dir();
    for entry in fs::read_dir(run_dir).expect("run directory").flatten() {
        if entry.file_name().to_string_lossy().starts_with("nicd.") {
            fs::remove_file(entry.path()).expect("what the daemon has left");
        }
    }
    // Other users may be unable to reach the script.
    let copy = hosts.folder().join("pretender.py");
    fs::copy(script("pretender.py"), &copy).expect("copy the script");
    let python = hosts.plain(0, "/usr/bin/python3").arg(copy).arg(run_dir);
    let python = match user {
        Some(user) => python.user(user),
        None => python,
    };
    let mut pretender = python.start();
    pretender.prints("ready");
    pretender
}

/// What it hears while programs talk to another host.
fn heard(user: Option<&str>) -> String {
    let hosts = Hosts::two().eager();
    let pretender = pretender(&hosts, user);
    let server = hosts.own(1, "echo_threads").args("conns=2 host=::");
    let server = server.args("port=7000").start().listening(7000);
    let client = hosts.own(0, "echo_client").args("conns=2 rounds=500");
    let address = hosts.host(1).address();
    client.args(&format!("port=7000 host={address}")).run();
    server.succeed();
    pretender.output()
}

#[test]
fn of_another_user_is_told_nothing() {
    if kernel_only() {
        return;
    }
    let said = heard(Some(STRANGER));
    assert!(said.contains("asked"), "{said}");
    assert!(!said.contains("told"), "{said}");
}

/// The control of the above: root could be the daemon.
#[test]
fn of_root_is_believed() {
    if kernel_only() {
        return;
    }
    let said = heard(None);
    assert!(said.contains("told"), "{said}");
}
