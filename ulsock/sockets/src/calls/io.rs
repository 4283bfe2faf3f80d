//! The data calls: who carries this one, the kernel as it is, or we?

mod awake;
pub mod inq;
mod many;
mod messages;
mod one;
mod sender;
mod sendfile;
mod vectors;
mod young;

use libc::{c_int, iovec};
use rustix::io::Errno;

use crate::conn::buffers::{Buffers, Nowhere, Unsound};
use crate::conn::{self, Conn, Handle};
use crate::promote;
use crate::runtime::cancel;
use crate::runtime::way::Way;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, State};
use crate::state::table::{self, Slot};
use crate::state::verdict::{Counted, InFlight, Verdict};
use os::pointer::Fault;
use rendezvous::reason::Reason;

pub use many::{recvmmsg, sendmmsg};
pub use messages::{recvmsg, sendmsg};
pub use one::{
    First, read, recv, recv_first, recvfrom, send, send_first, send_two_first, takes_address, write,
};
pub(in crate::calls) use sender::is_unix;
pub use sendfile::sendfile;
pub use vectors::{readv, writev};

/// Who carries a call.
enum Carry {
    Verdict(Verdict),
    Ours(Handle),
}

/// Has the quick way been tried already?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quick {
    Try,
    Refused,
}

/// Flags that only the kernel's own stream can honour.
const KERNEL_ONLY: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY | libc::MSG_FASTOPEN;

#[inline]
fn carry(fd: c_int, way: Way, flags: c_int) -> Carry {
    let Some(word) = table::attended(fd) else {
        return Carry::Verdict(Verdict::Bypass);
    };
    match word.slot() {
        Slot::Foreign | Slot::Fresh | Slot::Listener | Slot::Epoll(_) | Slot::Uring(_) => {
            Carry::Verdict(Verdict::Bypass)
        }
        Slot::Internal => Carry::Verdict(Verdict::Fail(libc::EBADF)),
        Slot::Young(life) => young::carry(fd, life, way, flags),
        Slot::Record(number) => match crate::state::process_group::own() {
            Some(family) => carry_record(family, number, fd, way, flags),
            None => Carry::Verdict(Verdict::Bypass),
        },
    }
}

#[inline]
fn carry_record(
    family: &'static ProcessGroup,
    number: u32,
    fd: c_int,
    way: Way,
    flags: c_int,
) -> Carry {
    let record = family.record(number);
    if flags & KERNEL_ONLY != 0 {
        let handle = Handle::new(family, number, fd);
        match flags & libc::MSG_OOB {
            0 => crate::conn::handover::to_kernel(fd, Reason::Call),
            _ => conn::urgent::before_send(record, handle),
        }
    }
    decide(family, number, record, fd, way, flags)
}

/// The kernel as it is, or we? A plain connection may become managed by this very question.
#[inline]
fn decide(
    family: &'static ProcessGroup,
    number: u32,
    record: &'static Record,
    fd: c_int,
    way: Way,
    flags: c_int,
) -> Carry {
    match record.state() {
        State::Plain if record.stays_on_kernel() => {
            return Carry::Verdict(Verdict::Counted(Counted::new(record, way)));
        }
        State::Plain => {
            promote::note_call(family, number, record, fd);
            if record.state() != State::Managed {
                return by_kernel(record, Handle::new(family, number, fd), way, flags);
            }
        }
        State::Managed => {}
        State::Free | State::Out => return Carry::Verdict(Verdict::Bypass),
    }
    Carry::Ours(Handle::new(family, number, fd))
}

/// Through the gate as it is; if it has just been closed, the call is ours after all.
fn by_kernel(record: &'static Record, handle: Handle, way: Way, flags: c_int) -> Carry {
    enter(record, way).map_or(Carry::Ours(handle), |inflight| {
        let peeks = way == Way::In && flags & libc::MSG_PEEK != 0;
        Carry::Verdict(Verdict::Kernel(inflight.peeking(peeks)))
    })
}

#[inline]
fn enter(record: &'static Record, way: Way) -> Option<InFlight> {
    record.gate(way).enter().then(|| InFlight::new(record, way))
}

/// `None`: the call begins again.
fn verdict(
    handle: Handle,
    (way, flags): (Way, c_int),
    result: Option<Result<usize, Errno>>,
) -> Option<Verdict> {
    match result {
        Some(Ok(n)) => Some(Verdict::Done(n as isize)),
        Some(Err(error)) => Some(Verdict::Fail(error.raw_os_error())),
        // Closed by another thread: whatever the number means now, if anything.
        None if !handle.is_open() => None,
        // A handler with SA_RESTART has run.
        None if Conn::enter(handle).is_some() => None,
        // It has parted from its ring pair meanwhile.
        None => Some(one_by_one(handle.fd, way, flags & libc::MSG_PEEK)),
    }
}

/// Makes a call, as often as it begins again.
#[inline]
fn until_done(mut call: impl FnMut() -> Option<Verdict>) -> Verdict {
    loop {
        if let Some(verdict) = call() {
            return verdict;
        }
    }
}

/// Not managed: the kernel's own call, counted on its way.
#[cold]
fn one_by_one(fd: c_int, way: Way, flags: c_int) -> Verdict {
    match carry(fd, way, flags) {
        Carry::Verdict(verdict) => verdict,
        // It has become managed just now: the next call is ours, this one finds the gate closed.
        Carry::Ours(handle) => {
            crate::conn::handover::to_kernel(handle.fd, Reason::Call);
            Verdict::Bypass
        }
    }
}

#[inline]
fn after_call(handle: Handle) {
    if let Some(family) = crate::state::process_group::own() {
        conn::detach::note_call(family, handle);
    }
}

fn receive(fd: c_int, list: &[iovec], flags: c_int, quick: Quick) -> Verdict {
    let len = Buffers::total(list);
    until_done(|| receive_into(fd, &mut Buffers::new(list), len, flags, quick))
}

/// `None`: the call begins again.
fn receive_into(
    fd: c_int,
    room: &mut Buffers<'_>,
    len: usize,
    flags: c_int,
    quick: Quick,
) -> Option<Verdict> {
    // A Unix socket has no errors to be received, and ignores the flag.
    let unix = sender::is_unix(fd);
    let flags = match unix {
        true => flags & !libc::MSG_ERRQUEUE,
        false => flags,
    };
    // Neither errors nor urgent bytes are in a ring, and taking one moves nothing in the stream.
    if flags & (libc::MSG_ERRQUEUE | libc::MSG_OOB) != 0 {
        return Some(crate::state::verdict::guard(fd));
    }
    match carry(fd, Way::In, flags) {
        Carry::Verdict(verdict) => Some(awake::before(fd, flags, verdict)),
        Carry::Ours(handle) => {
            cancel::point();
            if len == 0 {
                let result = conn::zero_len::receive(handle, flags);
                // The kernel has what is next, and tells what goes along with it.
                let succeeds = matches!(result, Some(Ok(_)));
                if succeeds && unix && conn::zero_len::is_next_in_kernel(handle, flags) {
                    return Some(Verdict::Bypass);
                }
                return verdict(handle, (Way::In, flags), result);
            }
            let refused = |unsound: &Unsound| unsound.fault == Fault::Refused;
            if flags & libc::MSG_TRUNC != 0
                && !unix
                && !room.sound().is_err_and(|bad| refused(&bad))
            {
                let result = conn::recv::recv(handle, &mut conn::buffers::Bin, len, flags);
                return verdict(handle, (Way::In, flags), result);
            }
            let result = match room.sound() {
                Ok(()) => {
                    if quick == Quick::Try
                        && let Some(n) = receive_quickly(handle, room, len, flags)
                    {
                        return Some(Verdict::Done(n as isize));
                    }
                    conn::recv::recv(handle, room, len, flags)
                }
                Err(unsound) => receive_some(handle, room, unsound, flags),
            };
            after_call(handle);
            verdict(handle, (Way::In, flags), result)
        }
    }
}

#[inline(never)]
fn receive_quickly(
    handle: Handle,
    room: &mut Buffers<'_>,
    len: usize,
    flags: c_int,
) -> Option<usize> {
    let family = crate::state::process_group::own()?;
    let record = family.record(handle.number);
    conn::quick::recv(family, record, handle, room, len, flags)
}

#[inline(never)]
fn transmit_quickly(handle: Handle, bytes: &mut Buffers<'_>, len: usize, flags: c_int) -> bool {
    crate::state::process_group::own().is_some_and(|family| {
        let record = family.record(handle.number);
        conn::quick::send(family, record, handle, bytes, len, flags)
    })
}

/// Into buffers of which some cannot be written: if those before hold what is there, nobody notices.
#[cold]
fn receive_some(
    handle: Handle,
    room: &mut Buffers<'_>,
    unsound: Unsound,
    flags: c_int,
) -> Option<Result<usize, Errno>> {
    if unsound.fault == Fault::Refused {
        return Some(Err(Errno::FAULT));
    }
    let sound = unsound.before;
    let peek = flags & !libc::MSG_WAITALL | libc::MSG_PEEK;
    match conn::recv::recv(handle, &mut conn::buffers::Bin, sound + 1, peek)? {
        Ok(n) if n > sound => Some(Err(Errno::FAULT)),
        Ok(1..) => conn::recv::recv(handle, room, sound, flags),
        nothing => Some(nothing),
    }
}

/// From buffers of which some cannot be read.
#[cold]
fn transmit_none(handle: Handle, unsound: Unsound, flags: c_int) -> Option<Result<usize, Errno>> {
    if unsound.fault == Fault::Refused {
        return Some(Err(Errno::FAULT));
    }
    // When there is room the kernel looks at the bytes, and not before.
    let result = conn::send::send(handle, &mut Nowhere(unsound.at), 1, flags)?;
    Some(result.and(Err(Errno::FAULT)))
}

fn transmit(fd: c_int, list: &[iovec], flags: c_int, quick: Quick) -> Verdict {
    let len = Buffers::total(list);
    until_done(|| transmit_from(fd, &mut Buffers::new(list), len, flags, quick))
}

/// `None`: the call begins again.
fn transmit_from(
    fd: c_int,
    bytes: &mut Buffers<'_>,
    len: usize,
    flags: c_int,
    quick: Quick,
) -> Option<Verdict> {
    // No bytes are in nobody's way, and the kernel knows whether they fail.
    if len == 0 {
        return Some(crate::state::verdict::guard(fd));
    }
    match carry(fd, Way::Out, flags) {
        Carry::Verdict(verdict) => Some(verdict),
        Carry::Ours(handle) => {
            cancel::point();
            let result = match bytes.sound() {
                Ok(()) => {
                    if quick == Quick::Try && transmit_quickly(handle, bytes, len, flags) {
                        return Some(Verdict::Done(len as isize));
                    }
                    conn::send::send(handle, bytes, len, flags)
                }
                Err(unsound) => transmit_none(handle, unsound, flags),
            };
            after_call(handle);
            verdict(handle, (Way::Out, 0), result)
        }
    }
}
