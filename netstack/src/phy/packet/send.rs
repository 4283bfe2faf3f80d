//! Many frames to the kernel in one system call.
//!
//! Not by a ring that is shared with the kernel (PACKET_TX_RING): it takes no frame that is longer than a slot, lends
//! pages where a copy is cheaper, tells no reason for a frame that it loses, and was not faster for 64 B and 1 KiB.

use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use rustix::io;

use super::outbox::Parcel;
use super::wishes::{WISHES, Wishes};
use crate::phy::sys::syscall;

/// In one call.
const BATCH: usize = 16;

/// Sends parcels that are in `memory`; how many the kernel has taken, which may be fewer.
pub fn send(socket: impl AsFd, parcels: &[Parcel], memory: &[u8]) -> io::Result<usize> {
    let count = parcels.len().min(BATCH);
    let mut wishes = [Wishes::default(); BATCH];
    let nothing = libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    };
    let mut pieces = [[nothing; 2]; BATCH];
    // SAFETY: numbers and null pointers.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
    for (at, parcel) in parcels[..count].iter().enumerate() {
        wishes[at] = Wishes::of(parcel.joined.as_ref());
        let frame = &memory[parcel.start..parcel.start + parcel.length];
        pieces[at] = [
            piece(&raw const wishes[at] as *const u8, WISHES),
            piece(frame.as_ptr(), frame.len()),
        ];
        messages[at].msg_hdr.msg_iov = pieces[at].as_mut_ptr();
        messages[at].msg_hdr.msg_iovlen = 2;
    }
    let fd = socket.as_fd().as_raw_fd() as usize;
    let flags = libc::MSG_DONTWAIT as usize;
    let args = [fd, messages.as_mut_ptr() as usize, count, flags];
    // SAFETY: the kernel reads `count` messages, whose pieces outlive the call, and writes their lengths.
    unsafe { syscall(libc::SYS_sendmmsg, args) }
}

/// The kernel only reads it.
fn piece(start: *const u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: length,
    }
}
