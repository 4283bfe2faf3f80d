//! Groups of processes: all get everything in order, while members join, leave and are killed.

mod hosts;

use std::time::Duration;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::program::{Program, Running};
use tests::rng::Rng;
use tests::wait;

use super::names::check_clean;

fn member(place: &Place, words: &str) -> Running {
    let program = place.own(Side::Server, "groups").without("LD_PRELOAD");
    let program = program.env("ULSOCK_RUN_DIR", place.run_dir());
    start(program.args("member service=db").args(words))
}

fn start(program: Program) -> Running {
    program.piped().start()
}

/// How many it has told of with this sign.
fn told(member: &Running, sign: char) -> usize {
    let output = member.output();
    output.lines().filter(|line| line.starts_with(sign)).count()
}

fn await_told(members: &[Running], sign: char, count: usize) {
    for member in members {
        wait::until("all have been told", || told(member, sign) >= count);
    }
}

/// What it prints at the end: how many have joined and failed, and how many messages have come.
fn finish(member: Running) -> [u64; 3] {
    let output = member.succeed();
    let done = output.lines().last().unwrap_or_default();
    let words: Vec<&str> = done.split(' ').collect();
    assert_eq!((words.len(), words[0]), (5, "done"), "{output}");
    [1, 3, 4].map(|at| words[at].parse().expect("a number"))
}

/// All of them at once: each waits for the last message of the others.
fn finish_all(mut members: Vec<Running>) -> Vec<[u64; 3]> {
    members.iter_mut().for_each(|member| member.tell("over\n"));
    members.into_iter().map(finish).collect()
}

#[test]
fn eight_processes() {
    let place = Place::new(Ends::Kernel);
    for words in ["pause=0 ring=4096", "pause=20 len=0", "pause=100 len=10000"] {
        let members: Vec<Running> = (0..8).map(|_| member(&place, words)).collect();
        await_told(&members, '+', 7);
        std::thread::sleep(Duration::from_millis(500));
        for [joined, failed, messages] in finish_all(members) {
            assert_eq!((joined, failed), (7, 0));
            assert!(messages > 100, "{messages}");
        }
    }
    check_clean(&place);
}

/// Senders and receivers are killed, and others join, at any moment.
#[test]
fn killed_at_any_moment() {
    let place = Place::new(Ends::Kernel);
    let mut rng = Rng::new(5, 1);
    let lasting: Vec<Running> = (0..3).map(|_| member(&place, "pause=0")).collect();
    await_told(&lasting, '+', 2);
    for round in 1..=20 {
        let killed = member(&place, "pause=0 ring=8192");
        // At times before anybody knows of it.
        std::thread::sleep(Duration::from_micros(rng.below(60_000) as u64));
        killed.stop(libc::SIGKILL);
        if round % 5 == 0 {
            let fresh = member(&place, "pause=0");
            wait::until("it has met those that last", || told(&fresh, '+') >= 3);
            fresh.stop(libc::SIGKILL);
        }
    }
    for member in &lasting {
        wait::until("all who have joined have failed", || {
            told(member, '+') == 2 + told(member, '!')
        });
    }
    for [joined, failed, messages] in finish_all(lasting) {
        assert_eq!(joined, 2 + failed);
        assert!(failed >= 4, "{failed} have failed");
        assert!(messages > 1000, "{messages}");
    }
    check_clean(&place);
}

/// Who leaves is told of as such, after its last message; the others go on.
#[test]
fn one_after_the_other() {
    let place = Place::new(Ends::Kernel);
    let mut members: Vec<Running> = (0..5).map(|_| member(&place, "pause=10")).collect();
    await_told(&members, '+', 4);
    let left = members.split_off(3);
    for member in left {
        drop(member.stop(libc::SIGKILL));
    }
    await_told(&members, '!', 2);
    for [joined, failed, _] in finish_all(members) {
        assert_eq!((joined, failed), (4, 2));
    }
    check_clean(&place);
}
