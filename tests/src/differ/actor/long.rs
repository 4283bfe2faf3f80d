//! What would take many steps: making a connection, exchanging enough for it to be accelerated,
//! moving many bytes. The controller starts both ends of such a step at once.

use std::time::{Duration, Instant};

use libc::c_int;

use super::descriptors::{empty_address, our_address};
use super::outcome::{Outcome, errno};
use super::{name, number};
use crate::differ::names;
use crate::differ::program::Step;

const CHUNK: usize = 8192;
/// Nobody who works takes that long.
const PATIENCE: Duration = Duration::from_secs(8);
/// A sender that is never full.
const ENDLESS: i64 = 64 << 20;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "serve" => serve(step, outcome),
        "dial" => dial(step, outcome),
        "accepted" => accepted(step, outcome),
        "warm" => warm(step, outcome),
        "pour" => pour(step, outcome),
        "gather" => gather(step, outcome),
        "fill" => fill(step, outcome),
        "drain" => drain(step, outcome),
        _ => return false,
    }
    true
}

fn check(what: &str, result: c_int) -> c_int {
    assert!(result >= 0, "{what}: {}", names::error(errno()));
    result
}

fn set_one(fd: c_int, level: c_int, option: c_int) {
    let one: c_int = 1;
    // SAFETY: an int.
    check("setsockopt", unsafe {
        libc::setsockopt(fd, level, option, (&raw const one).cast(), 4)
    });
}

/// A listener at any port of this run's address; its port goes to the controller.
fn serve(step: &Step, outcome: &mut Outcome) {
    // SAFETY: the addresses are our own variables of the right length.
    unsafe {
        let v6 = step.get("v6") != 0;
        let fd = check(
            "socket",
            libc::socket(
                if v6 { libc::AF_INET6 } else { libc::AF_INET },
                libc::SOCK_STREAM,
                0,
            ),
        );
        if v6 {
            let address = loopback6(0);
            check("bind", libc::bind(fd, (&raw const address).cast(), 28));
        } else {
            let address = our_address(0);
            check("bind", libc::bind(fd, (&raw const address).cast(), 16));
        }
        check("listen", libc::listen(fd, 8));
        let (mut address, mut length) = empty_address();
        check(
            "getsockname",
            libc::getsockname(fd, (&raw mut address).cast(), &raw mut length),
        );
        // Both families keep the port in the same place.
        let port = u16::from_be((*(&raw const address).cast::<libc::sockaddr_in>()).sin_port);
        name(step.get("to"), fd);
        outcome.word(format!("~port={port}"));
    }
}

fn loopback6(port: u16) -> libc::sockaddr_in6 {
    // SAFETY: an address of zeroes is valid.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    address.sin6_family = libc::AF_INET6 as u16;
    address.sin6_addr.s6_addr[15] = 1;
    address.sin6_port = port.to_be();
    address
}

fn dial(step: &Step, outcome: &mut Outcome) {
    let (v6, port) = (step.get("v6") != 0, step.get("port") as u16);
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: plain numbers.
    let fd = check("socket", unsafe {
        libc::socket(family, libc::SOCK_STREAM, 0)
    });
    name(step.get("to"), fd);
    before_connect(step, fd, outcome);
    // SAFETY: the addresses are our own variables of the right length.
    let connected = unsafe {
        if v6 {
            let address = loopback6(port);
            libc::connect(fd, (&raw const address).cast(), 28)
        } else {
            let address = our_address(port);
            libc::connect(fd, (&raw const address).cast(), 16)
        }
    };
    check("connect", connected);
    set_one(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    outcome.word(fd.to_string());
}

/// What is said of the socket before it is a connection.
fn before_connect(step: &Step, fd: c_int, outcome: &mut Outcome) {
    if let Some(set) = step.find("early") {
        let mut event = libc::epoll_event {
            events: step.get("events") as u32,
            u64: step.get("data") as u64,
        };
        let set = number(set);
        // SAFETY: room for one event.
        outcome.call(|| unsafe {
            libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event).into()
        });
    }
    if let Some(second) = step.find("dup") {
        // SAFETY: a number of our own.
        name(second, check("dup", unsafe { libc::dup(fd) }));
    }
}

fn accepted(step: &Step, outcome: &mut Outcome) {
    let listener = number(step.get("fd"));
    // SAFETY: no address is asked for.
    let fd = check("accept", unsafe {
        libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut())
    });
    // SAFETY: a number of our own.
    unsafe { libc::close(listener) };
    name(step.get("fd"), -1);
    set_one(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    name(step.get("to"), fd);
    outcome.word(fd.to_string());
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
