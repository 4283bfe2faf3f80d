//! Socket options, file flags and ioctls.

use libc::{c_int, c_ulong, socklen_t};

use super::control::process;
use super::number;
use super::outcome::Outcome;
use crate::differ::names::{self, OPTIONS};
use crate::differ::program::Step;

/// Counts above this depend on window sizes.
const COUNTABLE: i64 = 16_000;

pub fn run(step: &Step, outcome: &mut Outcome) -> bool {
    let fd = number(step.get("fd"));
    // SAFETY: these calls take plain numbers.
    unsafe {
        match step.call.as_str() {
            "setsockopt" => set(step, outcome),
            "getsockopt" => get(step, outcome),
            "getfl" => flags(outcome, fd),
            "setfl" => drop(
                outcome.call(|| libc::fcntl(fd, libc::F_SETFL, step.get("fl") as c_int).into()),
            ),
            "getfd" => outcome.only(|| libc::fcntl(fd, libc::F_GETFD).into()),
            "setfd" => drop(
                outcome
                    .call(|| libc::fcntl(fd, libc::F_SETFD, step.get("cloexec") as c_int).into()),
            ),
            "setown" => drop(outcome.call(|| own(fd).into())),
            "sockatmark" => outcome.only(|| sockatmark(fd).into()),
            "FIONREAD" => count(outcome, fd, libc::FIONREAD),
            "SIOCOUTQ" => unsent(outcome, fd),
            "FIONBIO" => drop(control(outcome, fd, libc::FIONBIO, step.get("on") as c_int)),
            "SIOCATMARK" => {
                let value = control(outcome, fd, 0x8905, -1);
                outcome.word(format!("mark={value}"));
            }
            "ioctl" => drop(control(outcome, fd, 0x1234, 0)),
            _ => return false,
        }
    }
    true
}

unsafe extern "C" {
    fn sockatmark(fd: c_int) -> c_int;
}

/// Signals about the socket go to this very thread.
fn own(fd: c_int) -> c_int {
    // linux/fcntl.h; not in the libc crate.
    const F_SETOWN_EX: c_int = 15;
    const F_OWNER_TID: c_int = 0;
    // SAFETY: plain numbers, and a pointer to two ints.
    unsafe {
        let owner = [F_OWNER_TID, libc::gettid()];
        libc::fcntl(fd, F_SETOWN_EX, &raw const owner)
    }
}

fn flags(outcome: &mut Outcome, fd: c_int) {
    // SAFETY: plain numbers.
    let flags = outcome.quietly(|| unsafe { libc::fcntl(fd, libc::F_GETFL).into() });
    outcome.word(format!("flags={flags:#x}"));
}

fn control(outcome: &mut Outcome, fd: c_int, request: c_ulong, value: c_int) -> c_int {
    let mut value = value;
    // SAFETY: these requests take or give an int.
    outcome.call(|| unsafe { libc::ioctl(fd, request, &raw mut value).into() });
    value
}

fn count(outcome: &mut Outcome, fd: c_int, request: c_ulong) {
    let value = control(outcome, fd, request, -1);
    outcome.word(show_count(value));
}

pub fn show_count(value: c_int) -> String {
    if i64::from(value) > COUNTABLE {
        "many".to_owned()
    } else {
        value.to_string()
    }
}

/// How much is not acknowledged yet depends on delayed acknowledgements: only whether it can be told. Of a Unix socket
/// the kernel tells how much memory the messages take that the peer has not read: whether there are such.
fn unsent(outcome: &mut Outcome, fd: c_int) {
    let value = control(outcome, fd, libc::TIOCOUTQ, -1);
    outcome.word(match value {
        0 if is_unix(fd) => "read",
        1.. if is_unix(fd) => "unread",
        0.. => "some",
        _ => "none",
    });
}

fn is_unix(fd: c_int) -> bool {
    let (mut domain, mut length): (c_int, socklen_t) = (0, 4);
    // SAFETY: room for an int.
    unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut length,
        );
    }
    domain == libc::AF_UNIX
}

fn option(step: &Step) -> (&'static str, c_int, c_int) {
    OPTIONS
        .get(step.get("option") as usize)
        .copied()
        .unwrap_or(OPTIONS[0])
}

fn set(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let (name, level, number) = option(step);
    let value = step.get("value");
    let mut bytes = match name {
        // Milliseconds in programs.
        "SO_RCVTIMEO" | "SO_SNDTIMEO" => [value.div_euclid(1000), value.rem_euclid(1000) * 1000]
            .map(i64::to_ne_bytes)
            .concat(),
        // A negative number turns it off.
        "SO_LINGER" => [i32::from(value >= 0), value as i32]
            .map(i32::to_ne_bytes)
            .concat(),
        _ => (value as i32).to_ne_bytes().to_vec(),
    };
    if step.get("micros") != 0 {
        bytes[8..].copy_from_slice(&step.get("micros").to_ne_bytes());
    }
    let length = step
        .find("length")
        .unwrap_or(bytes.len() as i64)
        .min(bytes.len() as i64);
    // SAFETY: `length` is at most that of `bytes`.
    outcome.call(|| unsafe {
        libc::setsockopt(
            fd,
            level,
            number,
            bytes.as_ptr().cast(),
            length as socklen_t,
        )
        .into()
    });
}

fn get(step: &Step, outcome: &mut Outcome) {
    let fd = number(step.get("fd"));
    let (name, level, number) = option(step);
    let mut bytes = [0u8; 64];
    let mut length = step.find("length").unwrap_or(64).clamp(0, 64) as socklen_t;
    // SAFETY: `length` is at most that of `bytes`.
    let result = outcome.call(|| unsafe {
        libc::getsockopt(
            fd,
            level,
            number,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
        .into()
    });
    if result < 0 {
        return;
    }
    match name {
        // The kernel tunes these by what it sees pass on TCP.
        "SO_RCVBUF" | "SO_SNDBUF" | "TCP_QUICKACK" if !is_unix(fd) => {
            outcome.word(format!("length={length}"));
        }
        "SO_PEERCRED" if length == 12 => {
            let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
            outcome.word(process(word(0) as i32, word(4), word(8)));
        }
        // A new descriptor.
        "SO_PEERPIDFD" if length == 4 => {
            let fd = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            // SAFETY: a number that the kernel has just given to us.
            unsafe { libc::close(fd) };
        }
        "SO_ERROR" => outcome.word(names::error(i32::from_ne_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3],
        ]))),
        _ => outcome.word(format!("value={:02x?}", &bytes[..length as usize]).replace(' ', "")),
    }
}
