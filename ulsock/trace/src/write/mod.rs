//! The recorder inside the program. Every function may be called from any thread at any time, also by a signal handler
//! that has interrupted one of them, or in a forked child; none blocks, allocates or changes `errno`.

mod file;
mod thread;

#[cfg(test)]
mod tests;

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicPtr, Ordering};

use os::spin::Clock;
use rendezvous::tracer::{Happened, Look, LookFn, Recorder, VERSION, kind};

use crate::call::{Call, Class};
use crate::entry::{Called, Carrier, Connection, Entry, Moment, Phase};

pub use thread::mark;

/// What libulsock_preload.so is told.
pub static RECORDER: Recorder = Recorder {
    version: VERSION,
    mark,
    happened,
};

static LOOK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Load time: recording begins if the environment says so. `false`: it does not.
pub fn start() -> bool {
    file::start()
}

/// libulsock_preload.so serves us.
pub fn attached(look: LookFn) {
    LOOK.store(look as *mut (), Ordering::Release);
    file::note_attached();
}

#[inline]
fn now() -> u64 {
    Clock::now().nanos()
}

#[inline]
fn look(fd: c_int) -> Look {
    let look = LOOK.load(Ordering::Acquire);
    if look.is_null() {
        return unknown();
    }
    // SAFETY: not null, hence what `attached` has stored.
    let look = unsafe { std::mem::transmute::<*mut (), LookFn>(look) };
    look(fd)
}

fn unknown() -> Look {
    Look {
        what: [kind::UNKNOWN, 0, 0, 0],
        ..Look::default()
    }
}

/// A call that is being made.
#[derive(Clone, Copy)]
pub struct Span {
    call: Call,
    fd: c_int,
    start: u64,
    /// What was there before a call that ends it.
    before: Look,
}

/// `None`: it is not recorded.
#[inline]
pub fn begin(call: Call, fd: c_int) -> Option<Span> {
    if !file::is_on() {
        return None;
    }
    let before = match call.class() {
        Class::Wait => Look::default(),
        _ => look(fd),
    };
    if !concerns(call, fd, &before) {
        return None;
    }
    let start = now();
    thread::begin(call, fd, start);
    Some(Span {
        call,
        fd,
        start,
        before,
    })
}

fn concerns(call: Call, fd: c_int, look: &Look) -> bool {
    match (call.class(), look.what[0]) {
        (Class::Wait, _) | (_, kind::CONNECTION | kind::SOCKET) => true,
        (_, kind::UNKNOWN) => is_tcp(fd),
        _ => false,
    }
}

#[cold]
fn is_tcp(fd: c_int) -> bool {
    // SAFETY: the program's own number, which is only asked about.
    fd >= 0 && os::tcp::is_tcp(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// `result`: what the call has returned; `bytes`: what it has moved, if that is something else.
#[inline]
pub fn end(span: Span, result: i64, bytes: Option<u64>, errno: c_int) {
    let end = now();
    let class = span.call.class();
    let after = match class {
        Class::Wait | Class::Close => span.before,
        // The connection that has begun.
        Class::Open if span.call != Call::Connect && result >= 0 => look(result as c_int),
        _ => look(span.fd),
    };
    let spent = thread::end(end);
    let [kind, sends, receives, reason] = after.what;
    let is_connection = kind == kind::CONNECTION;
    let carrier = match is_connection {
        true if class.receives() => Carrier::from_number(receives),
        true => Carrier::from_number(sends),
        false => Carrier::Unknown,
    };
    let moved = bytes
        .filter(|_| result >= 0)
        .map_or(result, |bytes| bytes as i64);
    let called = Called {
        call: span.call,
        fd: span.fd,
        start: span.start,
        end: end.max(span.start),
        result: moved,
        errno: if result < 0 { errno as u16 } else { 0 },
        carrier,
        reason,
        connection: is_connection.then_some(Connection {
            family: file::family(),
            record: after.record,
            generation: after.generation,
        }),
        awake: spent.awake,
        in_vain: spent.in_vain,
        asleep: spent.asleep,
        woke: spent.woke,
    };
    thread::add(&Entry::Called(called));
}

extern "C" fn happened(what: &Happened) {
    if !file::is_on() {
        return;
    }
    let connection = Connection {
        family: file::family(),
        record: what.record,
        generation: what.generation,
    };
    thread::add(&Entry::Ends {
        connection,
        local: what.local,
        peer: what.peer,
    });
    thread::add(&Entry::Happened(Moment {
        time: now(),
        connection,
        happening: what.happening,
        reason: what.reason,
        offset: what.offset,
    }));
}

fn note_phase(phase: Phase, start: u64, end: u64) {
    thread::add(&Entry::Phase { phase, start, end });
}
