//! Passing a descriptor to another process over a Unix socket.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;

/// Room for one descriptor, aligned as a control header.
type Control = [u64; 4];

/// Calls with a message of one byte and room for one descriptor.
fn with_message<T>(act: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let (mut byte, mut control): (u8, Control) = (b'x', [0; 4]);
    let mut piece = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a plain computation.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;
    act(&mut message)
}

/// Sends a copy of `fd` to whoever reads from the other end of `over`.
pub fn send_fd(over: RawFd, fd: RawFd) -> io::Result<()> {
    with_message(|message| {
        // SAFETY: the control buffer has room for one header and one descriptor.
        let sent = unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
            libc::sendmsg(over, message, 0)
        };
        (sent == 1)
            .then_some(())
            .ok_or_else(io::Error::last_os_error)
    })
}

/// Waits for a descriptor.
pub fn recv_fd(over: RawFd) -> io::Result<RawFd> {
    with_message(|message| {
        // SAFETY: the buffers live until the call returns; the header is checked before it is read.
        unsafe {
            if libc::recvmsg(over, message, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())
        }
    })
}
