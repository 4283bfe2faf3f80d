//! sendmsg, recvmsg and recvmmsg, with what travels beside the bytes of a datagram: where it is cut into several
//! (UDP_SEGMENT, UDP_GRO), and the bits of its IP header that ECN uses. The layouts are the kernel's
//! (include/linux/socket.h, `struct cmsghdr`); the system calls are our own.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use rustix::io;

use super::super::sys::{Fd, syscall};

/// Without waiting, and without a signal.
const SEND: usize = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
const RECEIVE: usize = libc::MSG_DONTWAIT as usize;

/// A control message's header: its length with itself, level and type.
const HEADER: usize = 16;
/// Each begins at a multiple of this.
const ALIGN: usize = 8;

/// Room for what we ask for: two of the headers above with a number each.
type Control = [u64; 8];

/// Datagrams that one call receives.
pub const BATCH: usize = 8;

/// Bytes of a received datagram, or of several in a row.
pub const LONGEST: usize = 1 << 16;

/// What has been received in one piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub length: usize,
    /// The length of each datagram in it but the last, which may be shorter; 0: it is one.
    pub segment: usize,
    /// The byte of the IP header that has ECN's bits.
    pub service: u8,
    /// Not all of it is there.
    pub is_truncated: bool,
}

/// Sends these pieces as one datagram, or cut into datagrams of `segment` bytes.
pub fn send(socket: &Fd, pieces: &[libc::iovec], segment: Option<u16>) -> io::Result<()> {
    let mut control: Control = [0; 8];
    let mut message = empty();
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len();
    if let Some(segment) = segment {
        control[0] = (HEADER + size_of::<u16>()) as u64;
        control[1] = pair(libc::SOL_UDP, libc::UDP_SEGMENT);
        control[2] = segment.into();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = HEADER + ALIGN;
    }
    let fd = socket.as_fd().as_raw_fd() as usize;
    let args = [fd, &raw const message as usize, SEND];
    // SAFETY: the message names memory that outlives the call; the kernel reads it only.
    unsafe { syscall(libc::SYS_sendmsg, args)? };
    Ok(())
}

/// Receives one piece of at most [`LONGEST`] bytes. A call for one is cheaper than a call for several that
/// finds one: the kernel does not look for a second.
///
/// # Safety
/// The piece names `LONGEST` bytes that may be written, and that nobody else uses.
#[inline]
pub unsafe fn receive_one(socket: &Fd, piece: &mut libc::iovec) -> io::Result<Received> {
    let mut control: Control = [0; 8];
    let mut message = empty();
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    let fd = socket.as_fd().as_raw_fd() as usize;
    let args = [fd, &raw mut message as usize, RECEIVE];
    // SAFETY: the message names memory that outlives the call, and that the kernel may write, as the caller
    // promises.
    let length = unsafe { syscall(libc::SYS_recvmsg, args)? };
    Ok(received(&message, &control, length))
}

/// Receives into pieces of [`LONGEST`] bytes; how many of them are filled. If not all are, nothing else has
/// come yet.
///
/// # Safety
/// Each of the pieces names `LONGEST` bytes that may be written, and that nobody else uses.
pub unsafe fn receive(
    socket: &Fd,
    pieces: &mut [libc::iovec; BATCH],
    into: &mut [Received; BATCH],
) -> io::Result<usize> {
    let mut controls = [[0u64; 8]; BATCH];
    let mut messages: [libc::mmsghdr; BATCH] = core::array::from_fn(|at| {
        let mut message = empty();
        message.msg_iov = &raw mut pieces[at];
        message.msg_iovlen = 1;
        message.msg_control = controls[at].as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>();
        libc::mmsghdr {
            msg_hdr: message,
            msg_len: 0,
        }
    });
    let fd = socket.as_fd().as_raw_fd() as usize;
    let args = [fd, messages.as_mut_ptr() as usize, BATCH, RECEIVE, 0];
    // SAFETY: the messages name memory that outlives the call, and that the kernel may write, as the caller
    // promises.
    let count = unsafe { syscall(libc::SYS_recvmmsg, args)? };
    for at in 0..count.min(BATCH) {
        let message = &messages[at];
        into[at] = received(&message.msg_hdr, &controls[at], message.msg_len as usize);
    }
    Ok(count.min(BATCH))
}

/// What a call has left in its message.
#[inline]
fn received(message: &libc::msghdr, control: &Control, length: usize) -> Received {
    let mut received = Received {
        length,
        is_truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        ..Received::default()
    };
    read_control(control, message.msg_controllen, &mut received);
    received
}

fn empty() -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: ptr::null_mut(),
        msg_iovlen: 0,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

/// What the kernel has written beside a datagram.
#[inline]
fn read_control(control: &Control, written: usize, into: &mut Received) {
    const GRO: u64 = pair(libc::SOL_UDP, libc::UDP_GRO);
    const TOS: u64 = pair(libc::IPPROTO_IP, libc::IP_TOS);
    const CLASS: u64 = pair(libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
    let words = &control[..(written / ALIGN).min(control.len())];
    let mut at = 0;
    while let Some(&[length, kind, value]) = words.get(at..at + 3) {
        match kind {
            GRO => into.segment = value as u32 as usize,
            TOS | CLASS => into.service = value as u8,
            _ => {}
        }
        // Never less than the header: there is always a next one, or the end.
        at += (length as usize).max(HEADER).div_ceil(ALIGN);
    }
}

/// A level and a type: numbers of 32 bits, the first one at the lower address.
const fn pair(level: i32, kind: i32) -> u64 {
    level as u32 as u64 | (kind as u32 as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(control: Control, written: usize) -> Received {
        let mut received = Received::default();
        read_control(&control, written, &mut received);
        received
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let gro = [20, pair(libc::SOL_UDP, libc::UDP_GRO), 1448];
        let tos = [17, pair(libc::IPPROTO_IP, libc::IP_TOS), 0x03];
        let both = [gro[0], gro[1], gro[2], tos[0], tos[1], tos[2], 0, 0];
        let read_both = read(both, 48);
        assert_eq!((read_both.segment, read_both.service), (1448, 3));
        assert_eq!(read(both, 24).service, 0);
        assert_eq!(read(both, 0), Received::default());
    }

    /// No length makes it read on for ever, or outside.
    #[test]
    fn odd_lengths_end() {
        for length in [0, 1, 8, 15, 16, 17, 63, 64, 65, u64::MAX] {
            let kind = pair(libc::SOL_UDP, libc::UDP_GRO);
            let control = [length, kind, 7, length, kind, 8, 9, 9];
            for written in [0, 23, 24, 64, 65, usize::MAX] {
                let _ = read(control, written);
            }
        }
    }
}
