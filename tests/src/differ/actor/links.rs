//! How the two ends of a `link` come about: a listener and who connects to it, or a pair. The controller gives these
//! steps to both actors.

use libc::c_int;

use super::addresses::{Address, empty_address, kind, path, port_of};
use super::outcome::{Outcome, errno};
use super::{name, number, process};
use crate::differ::names::{self, PAIR, PATH};
use crate::differ::program::Step;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    match step.call.as_str() {
        "serve" => serve(step, outcome),
        "dial" => dial(step, outcome),
        "accepted" => accepted(step, outcome),
        "socketpair" => pair(step, outcome),
        "paired" => paired(step, outcome),
        _ => return false,
    }
    true
}

fn check(what: &str, result: c_int) -> c_int {
    assert!(result >= 0, "{what}: {}", names::error(errno()));
    result
}

/// A socket of the step's family, under the name `to`; at `address`.
fn bound(step: &Step, address: &Address) -> c_int {
    let fd = unbound(step, address);
    let (to, length) = (address.pointer(), address.length());
    // SAFETY: the length is the address's own.
    check("bind", unsafe { libc::bind(fd, to, length) });
    fd
}

fn unbound(step: &Step, address: &Address) -> c_int {
    // SAFETY: plain numbers.
    check("socket", unsafe {
        libc::socket(address.family(), kind(step), 0)
    })
}

/// An earlier connection may have left the name of its listener.
fn free_path(step: &Step, number: i64) {
    if step.get("over") == PATH {
        let _ = std::fs::remove_file(path(number));
    }
}

/// A listener at any port of this run's address; its port goes to the controller. A Unix socket's name is that of the
/// step.
fn serve(step: &Step, outcome: &mut Outcome) {
    let number = step.get("port");
    free_path(step, number);
    let fd = bound(step, &Address::of(step, number));
    let (mut address, mut length) = empty_address();
    // SAFETY: room for any address.
    unsafe {
        check("listen", libc::listen(fd, 8));
        let to = (&raw mut address).cast();
        check("getsockname", libc::getsockname(fd, to, &raw mut length));
    }
    name(step.get("to"), fd);
    let port = match step.get("over") {
        0 => port_of(&address).into(),
        _ => number,
    };
    outcome.word(format!("~port={port}"));
}

fn dial(step: &Step, outcome: &mut Outcome) {
    let address = Address::of(step, step.get("port"));
    let fd = match step.find("bound") {
        Some(own) => {
            free_path(step, own);
            bound(step, &Address::of(step, own))
        }
        None => unbound(step, &address),
    };
    name(step.get("to"), fd);
    before_connect(step, fd, outcome);
    // SAFETY: the length is the address's own.
    check("connect", unsafe {
        libc::connect(fd, address.pointer(), address.length())
    });
    at_once(step, fd);
    outcome.word(fd.to_string());
}

/// Without waiting for acknowledgements, where there are such.
fn at_once(step: &Step, fd: c_int) {
    if step.get("over") != 0 {
        return;
    }
    let one: c_int = 1;
    // SAFETY: an int.
    check("setsockopt", unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const one).cast(),
            4,
        )
    });
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
    at_once(step, fd);
    name(step.get("to"), fd);
    outcome.word(fd.to_string());
}

fn make_pair(step: &Step, outcome: &mut Outcome) -> Option<[c_int; 2]> {
    let mut ends = [-1; 2];
    let nonblock = match step.get("nonblock") {
        0 => 0,
        _ => libc::SOCK_NONBLOCK,
    };
    let domain = match step.get("over") {
        PAIR => libc::AF_UNIX,
        _ => libc::AF_INET,
    };
    // SAFETY: room for two.
    let made = outcome.call(|| unsafe {
        libc::socketpair(domain, kind(step) | nonblock, 0, ends.as_mut_ptr()).into()
    });
    (made >= 0).then_some(ends)
}

/// Both ends, under the names `to` and `other`.
fn pair(step: &Step, outcome: &mut Outcome) {
    if let Some([first, second]) = make_pair(step, outcome) {
        name(step.get("to"), first);
        name(step.get("other"), second);
        outcome.word(format!("{first} {second}"));
    }
}

/// One end, under the name `to`; the other goes to the other actor, which has to take it.
fn paired(step: &Step, outcome: &mut Outcome) {
    if let Some([first, second]) = make_pair(step, outcome) {
        name(step.get("to"), first);
        outcome.word(first.to_string());
        process::send_descriptor(second, outcome);
        // SAFETY: our own, which no name means.
        unsafe { libc::close(second) };
    }
}
