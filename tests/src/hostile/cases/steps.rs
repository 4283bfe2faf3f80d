//! A peer that goes some steps of the handshake and no further: it is silent, stopped, or dead.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::super::claimant::Claimant;
use super::super::memory::{self, CONFIRMED, OFFERER, STAGE, Words};
use super::super::scene::Scene;
use super::super::suitor::Suitor;
use super::super::unix;
use super::Outcome;
use crate::sock::{Forked, fork, wait_child};

/// Goes on with what it has until the harness ends it.
fn keep<T>(what: T) -> Outcome {
    std::mem::forget(what);
    Ok(())
}

/// The victim's channel waits in the mailbox for ever.
pub fn silence(scene: &mut Scene) -> Outcome {
    let mut suitor = Suitor::connect(scene);
    suitor.table.publish(&suitor.offer());
    let alive = suitor.rounds(300);
    keep(suitor)?;
    alive.then_some(()).ok_or("the connection has ended")
}

pub fn no_greeting(scene: &mut Scene) -> Outcome {
    let mut suitor = Suitor::connect(scene);
    let found = suitor.be_found();
    suitor.rounds(100);
    keep(suitor)?;
    found.then_some(()).ok_or("nobody knocked")
}

pub fn no_confirmation(scene: &mut Scene) -> Outcome {
    let mut suitor = Suitor::connect(scene);
    let claimed = suitor.be_found() && suitor.greet() && suitor.be_claimed().is_some();
    suitor.rounds(1200);
    keep(suitor)?;
    claimed.then_some(()).ok_or("no claim")
}

/// The victim moves to the rings, alone.
pub fn no_word_after_confirmation(scene: &mut Scene) -> Outcome {
    let (mut suitor, words, conn) = Suitor::be_taken(scene).ok_or("no claim")?;
    // It wishes for the ring, and reads nothing from it.
    let direction = memory::direction(conn, memory::CLAIMER);
    words.put(direction + memory::WISH, 8, 1);
    suitor.rounds(20);
    keep((suitor, words))
}

pub fn no_claim(scene: &mut Scene) -> Outcome {
    let claimant = Claimant::new(scene).ok_or("no offer")?;
    claimant.greet();
    claimant.talk(Duration::from_millis(200));
    keep(claimant)
}

pub fn claim_and_nothing_else(scene: &mut Scene) -> Outcome {
    let (claimant, words) = Claimant::is_taken(scene).ok_or("not confirmed")?;
    let direction = memory::direction(0, OFFERER);
    words.put(direction + memory::WISH, 8, 1);
    claimant.talk(Duration::from_millis(100));
    keep((claimant, words))
}

/// Its stream goes on in a ring, which stays empty, and then a byte comes by the kernel that no mark tells of.
pub fn stray_byte(scene: &mut Scene) -> Outcome {
    let (claimant, words) = Claimant::is_taken(scene).ok_or("not confirmed")?;
    claimant.talk(Duration::from_millis(20));
    words.enter_ring(memory::direction(0, memory::CLAIMER), 0);
    std::thread::sleep(Duration::from_millis(50));
    let sent = (&claimant.stream).write_all(b"K");
    std::thread::sleep(Duration::from_millis(50));
    keep((claimant, words))?;
    sent.map_err(|_| "the connection has ended")
}

/// More than a kernel socket takes with nobody reading.
const MUCH: usize = 8 << 20;

/// Connections that all end at once, each with bytes in its ring that have to go by the kernel first and find no room
/// there.
pub fn ends_that_wait(scene: &mut Scene) -> Outcome {
    let mut ends = Vec::new();
    for _ in 0..16 {
        let (mut suitor, words, conn) = Suitor::be_taken(scene).ok_or("no claim")?;
        let back = memory::direction(conn, memory::CLAIMER);
        words.put(back + memory::WISH, 8, 1);
        suitor.round();
        suitor.stream.set_nonblocking(true).map_err(|_| "a flag")?;
        fill(&suitor);
        // It wishes for the kernel, where nobody reads.
        words.put(back + memory::WISH, 8, 2);
        ends.push((suitor, words));
    }
    for (suitor, _) in &ends {
        let _ = suitor.stream.shutdown(std::net::Shutdown::Write);
    }
    std::thread::sleep(Duration::from_millis(300));
    keep(ends)
}

/// Sends until the victim takes no more.
fn fill(suitor: &Suitor) {
    let (mut sent, end) = (0, Instant::now() + Duration::from_millis(100));
    while sent < MUCH && Instant::now() < end {
        match (&suitor.stream).write(&[1; 65536]) {
            Ok(more) => sent += more,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// How far it goes.
const STEPS: usize = 7;

/// As the offering side, so many steps.
fn go(scene: &mut Scene, steps: usize) -> (Suitor, Option<Words>) {
    let mut suitor = Suitor::connect(scene);
    let mut memory = None;
    for step in 0..steps {
        match step {
            0 => suitor.table.publish(&suitor.offer()),
            1 => _ = suitor.be_found(),
            2 => _ = suitor.greet(),
            3 => memory = suitor.be_claimed(),
            4 => confirm(&memory),
            5 => enter(&mut suitor, &memory),
            _ => half_a_message(&memory),
        }
    }
    (suitor, memory.map(|(words, _)| words))
}

fn confirm(memory: &Option<(Words, u32)>) {
    if let Some((words, conn)) = memory {
        let stage = memory::side(*conn, OFFERER) + STAGE;
        words.put(stage, 4, CONFIRMED.into());
    }
}

/// Both directions shall be on rings.
fn enter(suitor: &mut Suitor, memory: &Option<(Words, u32)>) {
    suitor.round();
    if let Some((words, conn)) = memory {
        let back = memory::direction(*conn, memory::CLAIMER);
        words.put(back + memory::WISH, 8, 1);
        suitor.round();
    }
}

/// A mark, and a message of which the ring has no byte yet.
fn half_a_message(memory: &Option<(Words, u32)>) {
    if let Some((words, conn)) = memory {
        words.enter_ring(memory::direction(*conn, OFFERER), 100);
    }
}

pub fn killed_at_each(scene: &mut Scene) -> Outcome {
    for steps in 0..=STEPS {
        at_step(scene, steps, libc::SIGKILL, true);
    }
    Ok(())
}

/// Each stays stopped, until the harness ends them all.
pub fn stopped_at_each(scene: &mut Scene) -> Outcome {
    for steps in 0..=STEPS {
        at_step(scene, steps, libc::SIGSTOP, false);
    }
    Ok(())
}

/// A child goes so far, and then the signal comes.
fn at_step(scene: &mut Scene, steps: usize, signal: i32, wait: bool) {
    scene.rng.bits();
    let (told, tell) = std::io::pipe().expect("a pipe");
    match fork().expect("fork") {
        Forked::Child => {
            let held = go(scene, steps);
            drop(tell);
            unix::signal(std::process::id(), signal);
            std::mem::forget(held);
            std::process::exit(0);
        }
        Forked::Parent(pid) => {
            drop(tell);
            // Its end of the pipe is closed when it has gone so far.
            let mut fds = [crate::sock::pollfd(told.as_raw_fd(), libc::POLLIN)];
            crate::sock::poll(&mut fds, 5000).expect("poll");
            if wait {
                wait_child(pid).expect("wait");
            }
        }
    }
}
