//! Calls with one buffer: what nearly every program makes.

use libc::{c_int, c_void, iovec, sockaddr, socklen_t};

use super::sender;
use super::{Carry, KERNEL_ONLY, Quick, Way, awake, decide, receive, transmit, young};
use crate::conn::buffers::{MOST_AT_ONCE, Piece, TwoPieces};
use crate::conn::{self, Handle};
use crate::runtime::cancel;
use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, State};
use crate::state::table::{self, Attention, Slot, Word};
use crate::state::verdict::Verdict;
use crate::state::young::YoungCall;
use os::access;
use os::pointer::{Fault, fault, is_bad};

/// A call with one buffer, in the usual case: on a connection whose rings are ready.
#[inline(always)]
fn first(
    word: Word,
    fd: c_int,
    buf: *const c_void,
    len: usize,
    quick: impl FnOnce(&'static ProcessGroup, &'static Record, Handle) -> Option<usize>,
) -> Option<usize> {
    let (number, family) = (word.record()?, crate::state::process_group::own()?);
    let record = family.record(number);
    if record.state() != State::Managed || len == 0 || is_bad(buf, len) {
        return None;
    }
    cancel::point();
    quick(family, record, Handle::of(record, number, fd))
}

#[inline(never)]
fn receive_first(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    word: Word,
) -> Option<usize> {
    first(word, fd, buf, len, |family, record, handle| {
        let mut piece = Piece::new(buf.cast());
        conn::quick::recv(family, record, handle, &mut piece, len, flags)
    })
}

#[inline(never)]
fn transmit_first(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    word: Word,
) -> Option<usize> {
    if len > conn::quick::MOST_QUICK {
        return None;
    }
    first(word, fd, buf, len, |family, record, handle| {
        let mut piece = Piece::new(buf.cast_mut().cast());
        conn::quick::send(family, record, handle, &mut piece, len, flags).then_some(len)
    })
}

#[inline(never)]
fn transmit_two_first(
    fd: c_int,
    (head, body): (&[u8], &[u8]),
    flags: c_int,
    word: Word,
) -> Option<usize> {
    let len = head.len() + body.len();
    if len > conn::quick::MOST_QUICK {
        return None;
    }
    let at = head.as_ptr().cast();
    first(word, fd, at, head.len(), |family, record, handle| {
        let mut pieces = TwoPieces::new(head, body);
        conn::quick::send(family, record, handle, &mut pieces, len, flags).then_some(len)
    })
}

/// A usual call on plain kernel TCP: a straight line for short connections. Apart from the rest, so
/// that calls on rings do not pay for it.
#[inline(never)]
fn plain(fd: c_int, way: Way, buf: *mut c_void, len: usize, flags: c_int) -> Option<Verdict> {
    let number = table::attended(fd)?.record()?;
    let family = crate::state::process_group::own()?;
    let record = family.record(number);
    let usual = len > 0 && flags & (KERNEL_ONLY | libc::MSG_ERRQUEUE) == 0;
    if !usual || record.state() == State::Managed {
        return None;
    }
    match decide(family, number, record, fd, way, flags) {
        Carry::Verdict(verdict) => Some(match way {
            Way::In => awake::receive(record, fd, (buf, len), flags, verdict),
            Way::Out => verdict,
        }),
        // It has become managed just now.
        Carry::Ours(_) => None,
    }
}

/// On a connection that is left alone, and whose receives may wait awake. Nobody counts what it moves: the kernel does.
#[inline(never)]
fn receive_alone(record: &Record, fd: c_int, place: (*mut c_void, usize), flags: c_int) -> First {
    // A read of no bytes does not look at the socket.
    if place.1 == 0 {
        return First::Other;
    }
    match awake::receive(record, fd, place, flags, Verdict::Bypass) {
        Verdict::Done(result) => First::Done(result),
        Verdict::Fail(error) => First::Failed(error),
        Verdict::Bypass | Verdict::Kernel(_) | Verdict::Counted(_) | Verdict::Young(_) => {
            First::Foreign
        }
    }
}

/// What became of a call with one buffer at once.
pub enum First {
    /// Not ours: call the real function.
    Foreign,
    /// Done in user space with this result, as is usual.
    Done(isize),
    /// Failed with this errno.
    Failed(c_int),
    /// On a young connection: call the real function, then `YoungCall::done`.
    Young(YoungCall),
    /// None of them: go on with [`read`], [`recv`], [`write()`] or [`send`].
    Other,
}

/// A call that was not done at once: the kernel's, if the connection is young.
#[inline(never)]
fn young_first(fd: c_int, way: Way, flags: c_int, word: Word) -> First {
    match word.slot() {
        Slot::Young(life) => young::first(fd, life, way, flags).map_or(First::Other, First::Young),
        _ => First::Other,
    }
}

/// The usual case of [`read`] and [`recv`].
///
/// # Safety
/// As libc's `recv`.
#[inline(always)]
pub unsafe fn recv_first(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> First {
    match table::attention(fd) {
        Attention::Attended(word) => match receive_first(fd, buf, len, flags, word) {
            Some(n) => First::Done(n as isize),
            None => young_first(fd, Way::In, flags, word),
        },
        Attention::LeftAlone(word) => match awake::concerned(word) {
            Some(record) => receive_alone(record, fd, (buf, len), flags),
            None => First::Foreign,
        },
        Attention::Foreign => First::Foreign,
    }
}

/// The usual case of [`write()`] and [`send`].
///
/// # Safety
/// As libc's `send`.
#[inline(always)]
pub unsafe fn send_first(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> First {
    match table::attention(fd) {
        Attention::Attended(word) => match transmit_first(fd, buf, len, flags, word) {
            Some(n) => First::Done(n as isize),
            None => young_first(fd, Way::Out, flags, word),
        },
        Attention::LeftAlone(_) => {
            awake::note_sent();
            First::Foreign
        }
        Attention::Foreign => First::Foreign,
    }
}

/// Sends a head and a body as one, without a copy of either, if that is as usual and can be done at once and whole.
#[inline]
pub fn send_two_first(fd: c_int, head: &[u8], body: &[u8], flags: c_int) -> bool {
    match table::attention(fd) {
        Attention::Attended(word) => transmit_two_first(fd, (head, body), flags, word).is_some(),
        Attention::LeftAlone(_) | Attention::Foreign => false,
    }
}

/// After [`recv_first`].
///
/// # Safety
/// As libc's `read`.
pub unsafe fn read(fd: c_int, buf: *mut c_void, len: usize) -> Verdict {
    // Unlike recv, the kernel's read of no bytes does not look at the socket.
    if len == 0 {
        return crate::state::verdict::guard(fd);
    }
    if is_refused(buf, len) {
        return crate::state::verdict::guard(fd);
    }
    if let Some(verdict) = plain(fd, Way::In, buf, len, 0) {
        return verdict;
    }
    receive(fd, &[piece(buf, len.min(MOST_AT_ONCE))], 0, Quick::Refused)
}

/// After [`recv_first`].
///
/// # Safety
/// As libc's `recv`.
pub unsafe fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Verdict {
    if let Some(verdict) = plain(fd, Way::In, buf, len, flags) {
        return verdict;
    }
    receive(
        fd,
        &[piece(buf, len.min(MOST_AT_ONCE))],
        flags,
        Quick::Refused,
    )
}

/// After [`send_first`].
///
/// # Safety
/// As libc's `write`.
pub unsafe fn write(fd: c_int, buf: *const c_void, len: usize) -> Verdict {
    if is_refused(buf, len) {
        return crate::state::verdict::guard(fd);
    }
    if let Some(verdict) = plain(fd, Way::Out, buf.cast_mut(), len, 0) {
        return verdict;
    }
    let list = [piece(buf.cast_mut(), len.min(MOST_AT_ONCE))];
    transmit(fd, &list, 0, Quick::Refused)
}

/// After [`send_first`].
///
/// # Safety
/// As libc's `send`.
pub unsafe fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> Verdict {
    if let Some(verdict) = plain(fd, Way::Out, buf.cast_mut(), len, flags) {
        return verdict;
    }
    let list = [piece(buf.cast_mut(), len.min(MOST_AT_ONCE))];
    transmit(fd, &list, flags, Quick::Refused)
}

/// Other calls cut a length that is too long; read and write fail before they look at the socket, if not all of it
/// lies in user space.
#[inline]
fn is_refused(buf: *const c_void, len: usize) -> bool {
    len > MOST_AT_ONCE && fault(buf, len) == Some(Fault::Refused)
}

/// Would the kernel take this address along, and it is ours to ignore? A Unix socket that is connected refuses any.
pub fn takes_address(fd: c_int, addr: *const sockaddr, len: socklen_t) -> bool {
    table::attended(fd).is_some()
        && (len == 0 || !sender::is_unix(fd))
        && len as usize <= size_of::<libc::sockaddr_storage>()
        && access::is_readable(addr, len as usize)
}

fn piece(buf: *mut c_void, len: usize) -> iovec {
    iovec {
        iov_base: buf,
        iov_len: len,
    }
}

/// # Safety
/// As libc's `recvfrom`.
pub unsafe fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> Verdict {
    // SAFETY: the program's own arguments; `recv` checks the buffer.
    let verdict = unsafe { recv(fd, buf, len, flags) };
    if let Verdict::Done(n) = verdict
        && !addr.is_null()
    {
        // SAFETY: any bytes are a length.
        let room = unsafe { access::load(addrlen) };
        if room.is_some_and(|room| room > i32::MAX as socklen_t) {
            return Verdict::Fail(libc::EINVAL);
        }
        // As in the kernel, what has been received is gone if its sender cannot be told.
        let told = room.is_some_and(|room| sender::tell(fd, (len, n), addr.cast(), room, addrlen));
        if !told {
            return Verdict::Fail(libc::EFAULT);
        }
    }
    verdict
}
