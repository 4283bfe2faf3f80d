//! `ulsock ctl`: live connections are ordered to kernel TCP and back in mid-stream, programs are switched off and on, and
//! nobody orders what is not his.

mod streams;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;
use tests::ends::{Ends, Side, kernel_only};
use tests::place::{Place, Rings};
use tests::program::{Finished, Program, Running, built};
use tests::{ports, top, wait};

use crate::script;

/// What `ulsock ctl --json` says.
#[derive(Debug, Deserialize)]
struct Answer {
    programs: usize,
    connections: usize,
    followed: usize,
    idle: usize,
    cannot: usize,
    left: Vec<Value>,
}

/// The status and what it has said. Not one of the place's programs, which must be silent.
fn run(place: &Place, words: &str) -> (Option<i32>, String) {
    let command = Command::new(built("ulsock"))
        .arg("ctl")
        .args(words.split_whitespace())
        .env("ULSOCK_RUN_DIR", place.run_dir())
        .output()
        .expect("to start ulsock");
    let text = [command.stdout, command.stderr].concat();
    (
        command.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn done(place: &Place, words: &str) -> String {
    let (status, text) = run(place, words);
    assert_eq!(status, Some(0), "{words}: {text}");
    text
}

fn refused(place: &Place, words: &str) -> String {
    let (status, text) = run(place, words);
    assert_eq!(status, Some(1), "{words}: {text}");
    text
}

fn ctl(place: &Place, words: &str) -> Answer {
    read(&done(place, &format!("{words} --json")))
}

fn read(output: &str) -> Answer {
    serde_json::from_str(output).unwrap_or_else(|error| panic!("{error} in {output}"))
}

/// Some connections that have carried something, and wait.
struct Pair {
    server: Running,
    client: Running,
}

const IDLE: usize = 3;

impl Pair {
    fn start(place: &Place) -> Pair {
        let port = ports::free();
        let server = place.own(Side::Server, "echo_epoll");
        let server = server.args(&format!("port={port}")).piped().start();
        let server = server.listening(port);
        let client = place.own(Side::Client, "idle");
        let words = format!("port={port} conns={IDLE} rounds=60 wait=epoll");
        let mut client = client.args(&words).start();
        client.prints("idle");
        Pair { server, client }
    }

    fn end(mut self) {
        self.server.tell("poke\n");
        self.client.succeed();
        self.server.succeed();
    }
}

fn are_accelerated(place: &Place, count: usize) -> bool {
    let rows = top::rows(place.run_dir());
    rows.len() == count && rows.iter().all(top::Row::is_accelerated)
}

fn are_on_kernel(place: &Place, count: usize) -> bool {
    let rows = top::rows(place.run_dir());
    let is_there = |row: &top::Row| row.carrier_tx == "kernel" && row.carrier_rx == "kernel";
    rows.len() == count
        && rows
            .iter()
            .all(|row| is_there(row) && row.reason == "ordered")
}

/// Connections that say nothing follow when they do; until then it is said that they will.
#[test]
fn idle_connections_follow_at_their_next_call() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    let pair = Pair::start(&place);
    wait::until("all are on rings", || are_accelerated(&place, 2 * IDLE));
    let answer = ctl(&place, "demote --program idle");
    assert_eq!(
        (answer.connections, answer.programs),
        (IDLE, 1),
        "{answer:?}"
    );
    assert_eq!((answer.idle, answer.left.len()), (IDLE, IDLE), "{answer:?}");
    let text = done(&place, "demote");
    assert!(
        text.contains("3 idle, to follow at the next call"),
        "{text}"
    );
    pair.end();
    place.check_quiet();
}

/// What is asked for, and is not there, or is the kernel's for good, is told with the reason.
#[test]
fn what_cannot_be_ordered_is_told() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    let nothing = refused(&place, "demote");
    assert!(nothing.contains("no connection of a program"), "{nothing}");
    let nobody = refused(&place, "off --pid 4194999");
    assert!(nobody.contains("there is no process 4194999"), "{nobody}");
    let file = place.folder().join("ulsock.toml");
    fs::write(&file, "[[rule]]\nprogram = 'idle'\ncarrier = 'kernel'\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode");
    let place = place.with("ULSOCK_CONFIG_FILE", file.display());
    let pair = Pair::start(&place);
    let answer = ctl(&place, "promote --program idle");
    assert_eq!(
        (answer.connections, answer.cannot),
        (IDLE, IDLE),
        "{answer:?}"
    );
    assert_eq!(answer.left[0]["state"], "never", "{answer:?}");
    assert_eq!(answer.left[0]["reason"], "rule", "{answer:?}");
    let text = done(&place, "promote --program idle");
    assert!(text.contains("on kernel TCP for good (rule)"), "{text}");
    pair.end();
}

/// A program for other users, who cannot reach those that are built.
fn reachable(place: &Place, name: &str) -> PathBuf {
    let copy = place.folder().join(name);
    if !copy.exists() {
        fs::copy(built(name), &copy).expect("copy the program");
    }
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o777)).expect("chmod");
    copy
}

/// The command as this user.
fn as_user(place: &Place, user: &str, words: &str) -> Program {
    let command = place.program(Side::Client, reachable(place, "ulsock"));
    let command = command.user(user).without("LD_PRELOAD");
    command.args("ctl").args(words)
}

/// Nobody but its user and root orders a program; the end of one's own is enough for both directions.
#[test]
fn another_user_orders_his_own_ends_alone() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    let port = ports::free();
    let server = place.own(Side::Server, "echo_epoll");
    let server = server.args(&format!("port={port}")).piped().start();
    let server = server.listening(port);
    let pid = server.pid();
    let failure = |words: &str| {
        let Finished { status, errors, .. } = as_user(&place, "daemon", words).start().wait();
        assert_eq!(status.code(), Some(1), "{errors}");
        errors
    };
    let refused = failure(&format!("demote --pid {pid}"));
    assert!(
        refused.contains("only that user and root may order it"),
        "{refused}"
    );
    let refused = failure("off");
    assert!(refused.contains("your own"), "{refused}");
    let client = place.program(Side::Client, reachable(&place, "echo_client"));
    let words = format!("port={port} conns=2 rounds=100000000 fixed=100");
    let client = client.user("daemon").args(&words).start();
    wait::until("both are on rings", || are_accelerated(&place, 4));
    for _ in 0..5 {
        let answer = read(&as_user(&place, "daemon", "demote --json").run());
        assert_eq!((answer.connections, answer.programs), (2, 1), "{answer:?}");
        wait::until("both ends are on the kernel", || are_on_kernel(&place, 4));
        read(&as_user(&place, "daemon", "promote --json").run());
        wait::until("both ends are on rings", || are_accelerated(&place, 4));
    }
    client.stop(libc::SIGKILL);
    server.stop(libc::SIGKILL);
}

/// The connections that a program has, and those that it gets.
#[test]
fn a_program_is_off_and_on() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    let port = ports::free();
    let server = place.own(Side::Server, "echo_threads");
    let server = server
        .args(&format!("port={port} conns=4"))
        .start()
        .listening(port);
    let talk = |conns| {
        let client = place.own(Side::Client, "echo_client");
        let words = format!("port={port} conns={conns} rounds=100000000 fixed=200");
        client.args(&words).start()
    };
    let first = talk(2);
    wait::until("both are on rings", || are_accelerated(&place, 4));
    let answer = ctl(&place, "off --program echo_threads");
    assert_eq!((answer.programs, answer.connections), (1, 2), "{answer:?}");
    wait::until("they are on the kernel", || are_on_kernel(&place, 4));
    let second = talk(2);
    let is_held_back = |row: &top::Row| row.program == "echo_threads" && row.reason == "ordered";
    wait::until("new ones stay there", || {
        let rows = top::rows(place.run_dir());
        rows.iter().filter(|row| is_held_back(row)).count() == 4
    });
    let answer = ctl(&place, "promote --program echo_client");
    assert_eq!((answer.followed, answer.cannot), (0, 4), "{answer:?}");
    assert_eq!(answer.left[0]["state"], "off", "{answer:?}");
    let answer = ctl(&place, "on --program echo_threads");
    assert_eq!((answer.programs, answer.connections), (1, 4), "{answer:?}");
    wait::until("all are on rings", || are_accelerated(&place, 8));
    for client in [first, second] {
        client.stop(libc::SIGKILL);
    }
    server.stop(libc::SIGKILL);
    place.check_quiet();
}

/// An order stands for the connection, whoever of the program holds it, and ends with the program.
#[test]
fn an_order_ends_with_exec_and_outlives_a_fork() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both).eager();
    let port = ports::free();
    let server = place.own(Side::Server, "echo_epoll");
    let server = server.args(&format!("port={port}")).piped().start();
    let server = server.listening(port);
    let client = place.client("/usr/bin/python3").arg(script("ordered.py"));
    let mut client = client.arg(port.to_string()).piped().start();
    let mut steps = Vec::new();
    let mut step = |name: &str| {
        steps.push(name.to_owned());
        client.tell(&format!("{name}\n"));
        let said = steps.join("\n") + "\n";
        client.until(name, |it| it.output() == said);
    };
    step("speak");
    wait::until("it is on rings", || are_accelerated(&place, 2));
    let demote = format!("demote --program python3 --port {port}");
    ctl(&place, &demote);
    step("speak");
    assert!(are_on_kernel(&place, 2), "{}", top::text(place.run_dir()));
    step("exec");
    // The other end's order stands: it is another program's.
    ctl(&place, "promote --program echo_epoll");
    step("speak");
    wait::until("it is on rings again", || are_accelerated(&place, 2));
    ctl(&place, &demote);
    step("speak");
    step("fork");
    step("speak");
    let rows = top::rows(place.run_dir());
    let is_there = |row: &top::Row| row.carrier_tx == "kernel" && row.carrier_rx == "kernel";
    assert!(rows.iter().all(is_there), "{rows:?}");
    ctl(&place, &format!("promote --port {port}"));
    step("speak");
    wait::until("the child's is on rings", || are_accelerated(&place, 2));
    client.succeed();
    server.succeed();
    place.check(Rings::Some);
}
