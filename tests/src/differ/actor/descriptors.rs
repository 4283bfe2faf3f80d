//! The calls that make, name and end sockets.

use libc::c_int;

use super::addresses::{self, Address, empty_address, kind, path};
use super::outcome::Outcome;
use super::{name, number, place};
use crate::differ::names;
use crate::differ::program::Step;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    let fd = number(step.get("fd"));
    // SAFETY: these calls take plain numbers.
    unsafe {
        match step.call.as_str() {
            "socket" => named(step, outcome, || socket(step)),
            "accept" | "accept4" => accept(step, outcome),
            "bind" | "connect" => to_address(step, outcome),
            "unlink" | "rename" | "plain_file" => file(step, outcome),
            "getsockname" | "getpeername" => address_of(step, outcome),
            "listen" => outcome.only(|| libc::listen(fd, step.get("backlog") as c_int).into()),
            "shutdown" => outcome.only(|| libc::shutdown(fd, step.get("how") as c_int).into()),
            "close" => outcome.only(|| libc::close(fd).into()),
            "close_range" => outcome.only(|| libc::close_range(fd as u32, fd as u32, 0).into()),
            "dup" => named(step, outcome, || libc::dup(fd)),
            "dup2" => named(step, outcome, || libc::dup2(fd, target(step))),
            "dup3" => named(step, outcome, || {
                libc::dup3(
                    fd,
                    target(step),
                    step.get("cloexec") as c_int * libc::O_CLOEXEC,
                )
            }),
            "dupfd" => named(step, outcome, || {
                libc::fcntl(fd, libc::F_DUPFD, step.get("least") as c_int)
            }),
            "lseek" => outcome.only(|| libc::lseek(fd, 0, libc::SEEK_CUR)),
            "isatty" => outcome.only(|| i64::from(libc::isatty(fd))),
            "fsync" => outcome.only(|| libc::fsync(fd).into()),
            "ftruncate" => outcome.only(|| libc::ftruncate(fd, 0).into()),
            "fstat" => file_kind(fd, outcome),
            _ => return false,
        }
    }
    true
}

/// Where a dup2 goes: the number of another name, or one that it gives.
fn target(step: &Step) -> c_int {
    step.find("number")
        .map_or_else(|| number(step.get("onto")), |number| number as c_int)
}

/// A call that makes a descriptor, which gets the name `to`.
fn named(step: &Step, outcome: &mut Outcome, call: impl FnOnce() -> c_int) {
    let fd = outcome.call(|| call().into());
    if fd >= 0 {
        name(step.get("to"), fd as c_int);
    }
}

fn socket(step: &Step) -> c_int {
    let domain = Address::of(step, 0).family();
    let nonblock = if step.get("nonblock") != 0 {
        libc::SOCK_NONBLOCK
    } else {
        0
    };
    // SAFETY: plain numbers.
    unsafe { libc::socket(domain, kind(step) | nonblock, 0) }
}

fn accept(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let (mut address, mut length) = empty_address();
    let to = (&raw mut address).cast();
    let flags = if step.get("nonblock") != 0 {
        libc::SOCK_NONBLOCK
    } else {
        0
    };
    // SAFETY: room for any address.
    let new = outcome.call(|| unsafe {
        match step.call.as_str() {
            "accept4" => libc::accept4(fd, to, &raw mut length, flags).into(),
            _ => libc::accept(fd, to, &raw mut length).into(),
        }
    });
    if new >= 0 {
        name(step.get("to"), new as c_int);
        outcome.address(&address, length);
    }
}

fn to_address(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let mut address = match (step.get("over"), step.get("port")) {
        (0, port @ 0..) => Address::of(step, i64::from(place().port) + port),
        (0, _) => Address::of(step, 0),
        (_, number) => Address::of(step, number),
    };
    if step.get("unspec") != 0 {
        address.set_family(libc::AF_UNSPEC);
    }
    let (to, length) = (address.pointer(), address.length());
    // SAFETY: the length is the address's own.
    outcome.call(|| unsafe {
        match step.call.as_str() {
            "bind" => libc::bind(fd, to, length).into(),
            _ => libc::connect(fd, to, length).into(),
        }
    });
}

/// What becomes of a name while sockets have it.
fn file(step: &Step, outcome: &mut Outcome) {
    let path = path(step.get("port"));
    let done = match step.call.as_str() {
        "unlink" => std::fs::remove_file(path),
        "rename" => std::fs::rename(path, addresses::path(step.get("onto"))),
        _ => std::fs::write(path, "no socket"),
    };
    let error = done.err().and_then(|error| error.raw_os_error());
    outcome.word(error.map_or_else(|| "0".to_owned(), names::error));
}

fn address_of(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let (mut address, mut length) = empty_address();
    let to = (&raw mut address).cast();
    // SAFETY: room for any address.
    let result = outcome.call(|| unsafe {
        match step.call.as_str() {
            "getsockname" => libc::getsockname(fd, to, &raw mut length).into(),
            _ => libc::getpeername(fd, to, &raw mut length).into(),
        }
    });
    if result >= 0 {
        outcome.address(&address, length);
    }
}

fn file_kind(fd: c_int, outcome: &mut Outcome) {
    // SAFETY: fstat fills it, or it stays zero.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for one.
    outcome.call(|| unsafe { libc::fstat(fd, &raw mut stat).into() });
    outcome.word(format!("mode={:o}", stat.st_mode));
}
