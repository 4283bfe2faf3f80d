//! Calls on a socket, each as the preload library makes it: first `api`, then the kernel if that says so.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown};
use sockets::api::{self, First, Verdict};

/// The usual case at once.
#[inline]
fn answer_first(
    first: First,
    verdict: impl FnOnce() -> Verdict,
    real: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    match first {
        First::Done(n) => Ok(n.cast_unsigned()),
        First::Failed(errno) => Err(Errno::from_raw_os_error(errno)),
        First::Foreign => real(),
        First::Young(call) => Verdict::Young(call).answer(real),
        First::Other => verdict().answer(real),
    }
}

#[inline]
pub fn recv(
    socket: BorrowedFd<'_>,
    fd: RawFd,
    room: &mut [u8],
    flags: RecvFlags,
) -> io::Result<usize> {
    let (at, len, bits) = (
        room.as_mut_ptr().cast(),
        room.len(),
        flags.bits().cast_signed(),
    );
    // SAFETY: the room lives as long as the calls.
    let (first, verdict) = unsafe {
        (api::recv_first(fd, at, len, bits), || {
            api::recv(fd, at, len, bits)
        })
    };
    let received = answer_first(first, verdict, || {
        net::recv(socket, &mut *room, flags).map(|(n, _)| n)
    });
    Ok(received?)
}

#[inline]
pub fn recv_unless_empty(socket: BorrowedFd<'_>, fd: RawFd, room: &mut [u8]) -> io::Result<usize> {
    let (at, flags) = (room.as_mut_ptr().cast(), libc::MSG_DONTWAIT);
    // SAFETY: the room lives as long as the call.
    match unsafe { api::recv_first(fd, at, room.len(), flags) } {
        First::Done(n) => Ok(n.cast_unsigned()),
        First::Other if api::is_empty_ring(fd) => Err(Errno::AGAIN.into()),
        First::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
        First::Foreign | First::Other => recv(socket, fd, room, RecvFlags::DONTWAIT),
        // Such are Unix sockets, of which this library has none.
        First::Young(call) => {
            call.done(0);
            recv(socket, fd, room, RecvFlags::DONTWAIT)
        }
    }
}

#[inline]
pub fn send(
    socket: BorrowedFd<'_>,
    fd: RawFd,
    bytes: &[u8],
    flags: SendFlags,
) -> io::Result<usize> {
    let flags = flags | SendFlags::NOSIGNAL;
    let (at, len, bits) = (
        bytes.as_ptr().cast(),
        bytes.len(),
        flags.bits().cast_signed(),
    );
    // SAFETY: the bytes live as long as the calls.
    let (first, verdict) = unsafe {
        (api::send_first(fd, at, len, bits), || {
            api::send(fd, at, len, bits)
        })
    };
    Ok(answer_first(first, verdict, || {
        net::send(socket, bytes, flags)
    })?)
}

pub fn shutdown(socket: BorrowedFd<'_>, fd: RawFd, how: Shutdown) -> io::Result<()> {
    let number = match how {
        Shutdown::Read => libc::SHUT_RD,
        Shutdown::Write => libc::SHUT_WR,
        Shutdown::Both => libc::SHUT_RDWR,
    };
    api::shutdown(fd, number).answer(|| net::shutdown(socket, how).map(|()| 0))?;
    Ok(())
}
