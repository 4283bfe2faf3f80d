//! The program's side of a transfer: its buffers or a file, towards a ring or towards the kernel.
//!
//! The program's pointers are used as the kernel would use them, for the length of one copy, which
//! fails where they are bad.

mod file;
mod piece;

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_long, c_void, iovec, msghdr};
use netstack::ring::{Sink, Source};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

pub use file::File;
use os::access;
use os::pointer::{self, Fault};
use os::raw;
pub use piece::{Piece, TwoPieces};

/// Pieces that are handed to the kernel at once without much stack, and those of the longest vector:
/// the kernel gets all of them in one call, for each call is a segment, and fails for itself.
const FEW: usize = 16;
const MANY: usize = 1024;

/// The kernel too moves no more than this at once (MAX_RW_COUNT).
pub const MOST_AT_ONCE: usize = 0x7fff_f000;

/// Gives bytes to a ring, or lets the kernel send them.
pub trait Outgoing: Source {
    /// Sends up to `most` of the next bytes through the kernel, without waiting.
    fn kernel_send(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: SendFlags,
    ) -> Result<usize, Errno>;

    /// Something goes along that no ring can carry.
    fn needs_kernel(&self) -> bool {
        false
    }
}

/// Takes bytes from a ring, or lets the kernel receive them.
pub trait Incoming: Sink {
    /// Receives up to `most` bytes from the kernel, without waiting.
    fn kernel_recv(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: RecvFlags,
    ) -> Result<usize, Errno>;

    /// So many of the next `most` bytes have memory that can be written. One byte of each page is, with what was there.
    fn writable(&self, most: usize) -> usize;

    /// The kernel has given something along: what comes behind it belongs to a later call.
    fn is_complete(&self) -> bool {
        false
    }
}

/// Control data of a message: the kernel reads it, or has room to write.
pub struct ControlData {
    pub at: *mut c_void,
    pub len: usize,
    /// What the kernel wrote there, and the flags that it set.
    pub written: usize,
    pub flags: c_int,
    /// What a receive asks for: descriptors that close on exec.
    pub asked: c_int,
}

/// The first of the program's buffers that is bad, and the bytes before it.
#[derive(Clone, Copy)]
pub struct Unsound {
    pub before: usize,
    pub at: *mut c_void,
    pub fault: Fault,
}

/// A place in the program's buffers.
pub struct Buffers<'a> {
    list: &'a [iovec],
    /// Bytes of the first buffer that are done.
    done: usize,
    /// One of them is bad: nothing of the last copy counts, and none is touched any more.
    failed: bool,
    /// The kernel has given control data along, whether or not there was room for it.
    complete: bool,
    control: Option<&'a mut ControlData>,
}

impl<'a> Buffers<'a> {
    pub fn new(list: &'a [iovec]) -> Buffers<'a> {
        Buffers {
            list,
            done: 0,
            failed: false,
            complete: false,
            control: None,
        }
    }

    /// What of it goes through the kernel takes `control` along.
    pub fn with_control(list: &'a [iovec], control: &'a mut ControlData) -> Buffers<'a> {
        Buffers {
            control: Some(control),
            ..Buffers::new(list)
        }
    }

    pub fn total(list: &[iovec]) -> usize {
        list.iter()
            .map(|piece| piece.iov_len)
            .fold(0, usize::saturating_add)
            .min(MOST_AT_ONCE)
    }

    /// Can all of it be copied, as far as that can be said without trying?
    #[inline]
    pub fn sound(&self) -> Result<(), Unsound> {
        let mut before = 0;
        for piece in self.list {
            // Of several the kernel looks at the whole of each; one alone is cut first.
            let len = match self.list.len() {
                1 => piece.iov_len.min(MOST_AT_ONCE),
                _ => piece.iov_len,
            };
            if let Some(fault) = pointer::fault(piece.iov_base, len)
                && piece.iov_len > 0
            {
                let at = piece.iov_base;
                return Err(Unsound { before, at, fault });
            }
            before += piece.iov_len;
        }
        Ok(())
    }

    /// The next contiguous piece.
    fn next(&mut self) -> Option<(*mut u8, usize)> {
        while let Some(first) = self.list.first() {
            if self.done < first.iov_len {
                // SAFETY: within the buffer that the program gave.
                let at = unsafe { first.iov_base.cast::<u8>().add(self.done) };
                return Some((at, first.iov_len - self.done));
            }
            self.list = &self.list[1..];
            self.done = 0;
        }
        None
    }

    fn skip(&mut self, mut n: usize) {
        while n > 0 {
            let Some((_, len)) = self.next() else { return };
            let step = len.min(n);
            self.done += step;
            n -= step;
        }
    }

    /// Copies piece by piece: `copy` gets the program's address, the offset within `len`, and a
    /// length, and says whether it could.
    fn each(&mut self, len: usize, mut copy: impl FnMut(*mut u8, usize, usize) -> bool) -> usize {
        let (mut moved, begin) = (0, (self.list, self.done));
        if self.failed {
            return 0;
        }
        while moved < len {
            let Some((at, room)) = self.next() else { break };
            let n = room.min(len - moved);
            if !copy(at, moved, n) {
                self.failed = true;
                (self.list, self.done) = begin;
                return 0;
            }
            self.done += n;
            moved += n;
        }
        moved
    }

    /// The next up to `most` bytes as the kernel wants them.
    fn pieces<const N: usize>(&self, most: usize) -> ([iovec; N], usize) {
        let empty = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut pieces = [empty; N];
        let mut rest = Buffers {
            done: self.done,
            ..Buffers::new(self.list)
        };
        let (mut used, mut left) = (0, most);
        while used < N && left > 0 {
            let Some((at, len)) = rest.next() else { break };
            let n = len.min(left);
            pieces[used] = iovec {
                iov_base: at.cast(),
                iov_len: n,
            };
            used += 1;
            left -= n;
            rest.done += n;
        }
        (pieces, used)
    }
}

impl Source for Buffers<'_> {
    unsafe fn give(&mut self, to: *mut u8, len: usize) -> usize {
        // SAFETY: the caller of `give` has room for `len` bytes at `to`; `access::copy` fails if the program's buffers are bad.
        self.each(len, |from, at, n| unsafe {
            access::copy(to.add(at), from, n)
        })
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}

impl Sink for Buffers<'_> {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        // SAFETY: the caller of `take` has `len` bytes at `from`; `access::copy` fails if the program's buffers are bad.
        self.each(len, |to, at, n| unsafe {
            access::copy(to, from.add(at), n)
        });
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}

impl Outgoing for Buffers<'_> {
    fn kernel_send(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let (n, _) = self.message(libc::SYS_sendmsg, socket, most, flags.bits())?;
        // It has gone with the first bytes.
        if n > 0 {
            self.control = None;
        }
        Ok(n)
    }

    fn needs_kernel(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.len > 0)
    }
}

impl Incoming for Buffers<'_> {
    fn kernel_recv(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: RecvFlags,
    ) -> Result<usize, Errno> {
        let asked = self.control.as_ref().map_or(0, |control| control.asked);
        let flags = flags | RecvFlags::DONTWAIT | RecvFlags::from_bits_retain(asked as u32);
        let (n, header) = self.message(libc::SYS_recvmsg, socket, most, flags.bits())?;
        self.complete = header.msg_controllen > 0 || header.msg_flags & libc::MSG_CTRUNC != 0;
        if let Some(control) = &mut self.control {
            control.written = header.msg_controllen;
            control.flags = header.msg_flags;
        }
        Ok(n)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn writable(&self, most: usize) -> usize {
        let mut rest = Buffers {
            done: self.done,
            ..Buffers::new(self.list)
        };
        let mut good = 0;
        while let Some((at, len)) = rest.next().filter(|_| good < most) {
            let asked = len.min(most - good);
            let n = access::writable(at, asked);
            good += n;
            if n < asked {
                break;
            }
            rest.skip(n);
        }
        good
    }
}

impl Buffers<'_> {
    /// sendmsg or recvmsg with the next up to `most` bytes.
    fn message(
        &mut self,
        call: c_long,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: u32,
    ) -> Result<(usize, msghdr), Errno> {
        match self.list.len() {
            ..=FEW => self.message_of::<FEW>(call, socket, most, flags),
            _ => self.message_of::<MANY>(call, socket, most, flags),
        }
    }

    #[inline(never)]
    fn message_of<const N: usize>(
        &mut self,
        call: c_long,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: u32,
    ) -> Result<(usize, msghdr), Errno> {
        let (mut pieces, used) = self.pieces::<N>(most);
        // SAFETY: all zero is a message without name and control data.
        let mut header: msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = pieces.as_mut_ptr();
        header.msg_iovlen = used;
        if let Some(control) = &self.control {
            (header.msg_control, header.msg_controllen) = (control.at, control.len);
        }
        let (fd, message) = (socket.as_raw_fd() as usize, &raw mut header as usize);
        // SAFETY: the pieces and the control data lie within what the program gave.
        let n = unsafe { raw::syscall(call, [fd, message, flags as usize])? };
        self.skip(n);
        Ok((n, header))
    }
}

/// At once, where the kernel wants memory for it.
const MOST_THROWN_AWAY: usize = 16 << 10;

/// Throws away what it takes (MSG_TRUNC).
pub struct Bin;

impl Sink for Bin {
    unsafe fn take(&mut self, _from: *const u8, _len: usize) {}
}

impl Incoming for Bin {
    fn kernel_recv(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        flags: RecvFlags,
    ) -> Result<usize, Errno> {
        let without = flags | RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (fd, bits) = (socket.as_raw_fd() as usize, without.bits() as usize);
        // SAFETY: with MSG_TRUNC a TCP socket writes nothing, and a Unix socket fails; no address is asked for.
        match unsafe { raw::syscall(libc::SYS_recvfrom, [fd, 0, most, bits, 0, 0]) } {
            Err(Errno::FAULT) => {
                let mut bytes = [0; MOST_THROWN_AWAY];
                let most = most.min(bytes.len());
                rustix::net::recv(socket, &mut bytes[..most], flags | RecvFlags::DONTWAIT)
                    .map(|(n, _)| n)
            }
            result => result,
        }
    }

    fn writable(&self, most: usize) -> usize {
        most
    }
}

/// What a bad pointer gives: nothing.
pub struct Nowhere(pub *mut c_void);

impl Source for Nowhere {
    unsafe fn give(&mut self, _to: *mut u8, _len: usize) -> usize {
        0
    }
}

impl Outgoing for Nowhere {
    /// The kernel says what is worse, the pointer or the state of the socket.
    fn kernel_send(
        &mut self,
        socket: BorrowedFd<'_>,
        _most: usize,
        _flags: SendFlags,
    ) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let (socket, flags) = (socket.as_raw_fd() as usize, flags.bits() as usize);
        // SAFETY: the kernel reads nothing from where nothing is.
        unsafe { raw::syscall(libc::SYS_sendto, [socket, self.0 as usize, 1, flags, 0, 0]) }
    }
}

/// Takes ring bytes that must go through the kernel again into a buffer of ours.
pub struct Scratch {
    pub bytes: [u8; 16 << 10],
    pub used: usize,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            bytes: [0; 16 << 10],
            used: 0,
        }
    }
}

impl Sink for Scratch {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        let n = len.min(self.bytes.len() - self.used);
        // SAFETY: the caller of `take` has `len` bytes at `from`, and `n` of them fit behind `used`.
        unsafe { std::ptr::copy_nonoverlapping(from, self.bytes.as_mut_ptr().add(self.used), n) };
        self.used += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &mut [Vec<u8>]) -> Vec<iovec> {
        let piece = |part: &mut Vec<u8>| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        parts.iter_mut().map(piece).collect()
    }

    #[test]
    fn gathers_and_scatters_across_buffers() {
        let mut parts = [b"ab".to_vec(), Vec::new(), b"cdef".to_vec()];
        let iov = list(&mut parts);
        let mut from = Buffers::new(&iov);
        let mut out = [0u8; 6];
        // SAFETY: `out` has room for what is asked.
        unsafe {
            assert_eq!(from.give(out.as_mut_ptr(), 3), 3);
            assert_eq!(from.give(out.as_mut_ptr().add(3), 9), 3);
        }
        assert_eq!(&out, b"abcdef");

        let mut room = [vec![0; 1], vec![0; 5]];
        let iov = list(&mut room);
        // SAFETY: `out` holds six bytes.
        unsafe { Buffers::new(&iov).take(out.as_ptr(), 6) };
        assert_eq!(room, [b"a".to_vec(), b"bcdef".to_vec()]);
    }

    #[test]
    fn the_kernel_gets_no_more_than_allowed() {
        let mut parts = [b"abc".to_vec(), b"def".to_vec()];
        let iov = list(&mut parts);
        let (pieces, used) = Buffers::new(&iov).pieces::<FEW>(4);
        assert_eq!(Buffers::total(&pieces[..used]), 4);
    }
}
