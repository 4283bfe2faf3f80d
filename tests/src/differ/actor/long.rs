//! What would take many steps: exchanging enough for a connection to be accelerated, moving many bytes. The controller starts both ends of such a step at once.

use std::time::{Duration, Instant};

use libc::c_int;

use super::number;
use super::outcome::{Outcome, errno};
use crate::differ::names;
use crate::differ::program::Step;

const CHUNK: usize = 8192;
/// Nobody who works takes that long.
const PATIENCE: Duration = Duration::from_secs(8);
/// A sender that is never full.
const ENDLESS: i64 = 64 << 20;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "warm" => warm(step, outcome),
        "pour" => pour(step, outcome),
        "gather" => gather(step, outcome),
        "fill" => fill(step, outcome),
        "drain" => drain(step, outcome),
        "empty" => empty(step, outcome),
        _ => return false,
    }
    true
}

/// Small messages there and back.
fn warm(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut word = *b"warm";
    for _ in 0..step.get("rounds") {
        for turn in 0..2 {
            // SAFETY: four bytes.
            let moved = unsafe {
                if turn == step.get("turn") {
                    libc::send(fd, word.as_ptr().cast(), 4, libc::MSG_NOSIGNAL)
                } else {
                    libc::recv(fd, word.as_mut_ptr().cast(), 4, libc::MSG_WAITALL)
                }
            };
            if moved != 4 {
                return outcome.word(format!("cold {moved}"));
            }
        }
    }
    outcome.word("warm");
}

/// The bytes of a long transfer, by their position.
fn fill_chunk(at: i64, chunk: &mut [u8]) {
    for (i, byte) in chunk.iter_mut().enumerate() {
        *byte = wanted(at + i as i64);
    }
}

fn wanted(at: i64) -> u8 {
    (at ^ (at >> 8)) as u8
}

fn ready(fd: c_int, events: i16, timeout: c_int) -> i16 {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut poll, 1, timeout) };
    poll.revents
}

/// Sends `total` bytes, waiting by poll.
fn pour(step: &Step, outcome: &mut Outcome) {
    let (fd, total, start) = (number(step.get("fd")), step.get("total"), Instant::now());
    let mut sent = 0;
    while sent < total {
        match push(fd, sent, total) {
            Ok(n) => sent += n,
            Err(libc::EAGAIN) if start.elapsed() < PATIENCE => drop(ready(fd, libc::POLLOUT, 1000)),
            Err(error) => return outcome.word(names::error(error)),
        }
    }
    outcome.word("poured");
}

fn push(fd: c_int, at: i64, end: i64) -> Result<i64, i32> {
    let mut chunk = [0u8; CHUNK];
    let chunk = &mut chunk[..((end - at) as usize).min(CHUNK)];
    fill_chunk(at, chunk);
    // SAFETY: pointer and length describe `chunk`.
    let n = unsafe {
        libc::send(
            fd,
            chunk.as_ptr().cast(),
            chunk.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    if n < 0 { Err(errno()) } else { Ok(n as i64) }
}

/// Receives `total` bytes of a [`pour`] or a [`fill`], waiting by poll.
fn gather(step: &Step, outcome: &mut Outcome) {
    let (fd, total, start) = (number(step.get("fd")), step.get("total"), Instant::now());
    let mut got = 0;
    while got < total {
        match pull(fd, total - got) {
            Ok(bytes) if bytes.is_empty() => return outcome.word("end"),
            Ok(bytes) => {
                if let Some(bad) = (0..bytes.len()).find(|i| bytes[*i] != wanted(got + *i as i64)) {
                    return outcome.word(format!("wrong byte at {}", got + bad as i64));
                }
                got += bytes.len() as i64;
            }
            Err(libc::EAGAIN) if start.elapsed() < PATIENCE => drop(ready(fd, libc::POLLIN, 1000)),
            Err(error) => return outcome.word(format!("{} ~got={got}", names::error(error))),
        }
    }
    outcome.word("gathered");
}

fn pull(fd: c_int, most: i64) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; (most as usize).min(3 * CHUNK)];
    // SAFETY: pointer and length describe `bytes`.
    let n = unsafe {
        libc::recv(
            fd,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    };
    if n < 0 {
        return Err(errno());
    }
    bytes.truncate(n as usize);
    Ok(bytes)
}

/// Sends until there is no more room; how much that is, is not compared.
fn fill(step: &Step, outcome: &mut Outcome) {
    let (fd, mut sent) = (number(step.get("fd")), 0);
    let error = loop {
        match push(fd, sent, ENDLESS) {
            Ok(n) => sent += n,
            // The kernel may still be moving what was sent before.
            Err(libc::EAGAIN) if ready(fd, libc::POLLOUT, 20) & libc::POLLOUT != 0 => {}
            Err(error) => break error,
        }
    };
    outcome.word(format!(
        "{} {} ~sent={sent}",
        names::error(error),
        names::events(ready(fd, libc::POLLOUT, 0).into())
    ));
}

/// Receives until nothing is left.
fn drain(step: &Step, outcome: &mut Outcome) {
    let (fd, mut all) = (number(step.get("fd")), Vec::new());
    let end = loop {
        match pull(fd, 1 << 20) {
            Ok(bytes) if bytes.is_empty() => break "end".to_owned(),
            Ok(bytes) => all.extend(bytes),
            Err(error) => break names::error(error),
        }
    };
    outcome.bytes(&all);
    outcome.word(end);
}

/// The same where how much that is depends on the carrier: only how it ends.
fn empty(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    outcome.word(loop {
        match pull(fd, 1 << 20) {
            Ok(bytes) if bytes.is_empty() => break "end".to_owned(),
            Ok(_) => {}
            Err(error) => break names::error(error),
        }
    });
}
