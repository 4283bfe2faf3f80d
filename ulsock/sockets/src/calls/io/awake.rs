//! Receives that kernel TCP serves, and that wait awake first, where that is worth while ([`crate::runtime::awake`]).

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use libc::{MSG_DONTWAIT, POLLIN, POLLPRI, POLLRDHUP, c_int, c_void};
use rustix::io::Errno;

use crate::conn::socket_options;
use crate::runtime::awake::{self, Budget, Waited};
use crate::runtime::cancel;
use crate::runtime::signal::Seen;
use crate::runtime::thread::Thread;
use crate::state::process_group;
use crate::state::record::{Record, flag};
use crate::state::table::{self, Word};
use crate::state::verdict::Verdict;
use os::poll::has_something;
use os::{raw, tcp};

/// Who has room for more than this waits for bulk, which is better gathered than taken as it comes.
const LARGEST: usize = 64 << 10;

/// A receive into one buffer: a look takes the bytes.
#[inline]
pub(super) fn receive(
    record: &Record,
    fd: c_int,
    (buf, len): (*mut c_void, usize),
    flags: c_int,
    verdict: Verdict,
) -> Verdict {
    if flags != 0 || len > LARGEST || !record.has(flag::AWAKE) {
        return verdict;
    }
    let Some(wait) = Wait::begin(record, fd) else {
        return verdict;
    };
    // As at the entry of the kernel's call: bytes that a look has taken could not be given back.
    cancel::point();
    let look = || match receive_now(fd, buf, len) {
        Err(Errno::AGAIN) => None,
        result => Some(result),
    };
    match wait.until(fd, look) {
        Ended::Found(Ok(n)) => end(verdict, n as isize, Verdict::Done(n as isize)),
        Ended::Found(Err(error)) => end(verdict, -1, Verdict::Fail(error.raw_os_error())),
        Ended::Interrupted => end(verdict, -1, Verdict::Fail(libc::EINTR)),
        Ended::GoOn => verdict,
    }
}

/// Before any other receive: a look asks whether there is something.
#[inline]
pub(super) fn before(fd: c_int, flags: c_int, verdict: Verdict) -> Verdict {
    let kernels = matches!(
        verdict,
        Verdict::Bypass | Verdict::Kernel(_) | Verdict::Counted(_) | Verdict::Young(_)
    );
    if flags & MSG_DONTWAIT != 0 || !kernels {
        return verdict;
    }
    let Some(record) = table::ours(fd).and_then(concerned) else {
        return verdict;
    };
    let Some(wait) = Wait::begin(record, fd) else {
        return verdict;
    };
    let look = || has_something(fd, POLLIN | POLLPRI | POLLRDHUP).then_some(());
    match wait.until(fd, look) {
        Ended::Interrupted => end(verdict, -1, Verdict::Fail(libc::EINTR)),
        Ended::Found(()) | Ended::GoOn => verdict,
    }
}

/// Is it a connection whose receives may wait awake? It costs one load where nothing is ours.
#[inline]
pub(super) fn concerns(fd: c_int) -> bool {
    table::ours(fd).and_then(concerned).is_some()
}

/// The record of a connection whose receives may wait awake.
#[inline]
pub(super) fn concerned(word: Word) -> Option<&'static Record> {
    let record = process_group::own()?.record(word.record()?);
    (record.has(flag::AWAKE) && !record.has(flag::NONBLOCK)).then_some(record)
}

/// A send goes past us: how its thread waits next depends on it. Where nothing is ours it costs a comparison.
#[inline]
pub(super) fn note_send(fd: c_int) {
    if table::ours(fd).is_some() {
        note_sent();
    }
}

/// The same for one that is known to be ours.
#[inline(never)]
pub(super) fn note_sent() {
    if let Some(me) = Thread::known() {
        me.rhythm.note_sent();
    }
}

enum Ended<T> {
    Found(T),
    Interrupted,
    /// Make the call.
    GoOn,
}

/// A receive that waits awake.
struct Wait {
    me: &'static Thread,
    seen: Seen,
    budget: Budget,
}

impl Wait {
    /// `None`: make the call. Most connections are too short for a wait that is awake, so the kernel is asked how the
    /// connection waits when there is one.
    #[inline]
    fn begin(record: &Record, fd: c_int) -> Option<Wait> {
        if record.has(flag::NONBLOCK) {
            return None;
        }
        let me = Thread::me()?;
        let (seen, budget) = (Seen::now(me), awake::begin(me)?);
        if !record.has(flag::LOOKED_UP) {
            look_up(record, fd);
        }
        let waits = !record.has(flag::NONBLOCK) && record.recv_lowat.load(Ordering::Relaxed) <= 1;
        waits.then_some(Wait { me, seen, budget })
    }

    #[inline]
    fn until<T>(self, fd: c_int, look: impl FnMut() -> Option<T>) -> Ended<T> {
        match self.budget.until(self.me, look) {
            Waited::Found(found) => Ended::Found(found),
            Waited::Handler if is_ended(self.me, self.seen, fd) => Ended::Interrupted,
            Waited::Handler | Waited::Nothing => Ended::GoOn,
        }
    }
}

/// What an accepted socket has inherited from its listener, and what it was opened with.
#[cold]
fn look_up(record: &Record, fd: c_int) {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    socket_options::load_waiting(record, socket);
    record.set(flag::LOOKED_UP);
}

/// A handler has run: does that end the call? With a time limit also if it restarts others.
#[cold]
fn is_ended(me: &Thread, seen: Seen, fd: c_int) -> bool {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    seen.ends_call(me) || tcp::recv_timeout(socket).is_some()
}

/// What the program asked for is done: nobody is inside the kernel's call any more.
fn end(begun: Verdict, result: isize, verdict: Verdict) -> Verdict {
    match begun {
        Verdict::Kernel(inflight) => inflight.done(result),
        Verdict::Counted(call) => call.done(result),
        Verdict::Young(call) => call.done(result),
        // One that is left alone.
        Verdict::Bypass => {
            if let Some(me) = Thread::known() {
                me.rhythm.note_bytes(result);
            }
        }
        Verdict::Done(_) | Verdict::Fail(_) => {}
    }
    verdict
}

#[inline]
fn receive_now(fd: c_int, buf: *mut c_void, len: usize) -> Result<usize, Errno> {
    let args = [fd as usize, buf as usize, len, MSG_DONTWAIT as usize, 0, 0];
    // SAFETY: the program's own buffer, which the kernel checks.
    unsafe { raw::syscall(libc::SYS_recvfrom, args) }
}
