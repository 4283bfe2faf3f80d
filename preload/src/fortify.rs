//! The `_FORTIFY_SOURCE` forms, which compilers call instead of the plain ones when they know the
//! size of the buffer. An overflow goes to the real function, which reports it and aborts.

use crate::{data, readiness};
use libc::{
    c_int, c_void, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};
use std::mem::size_of;

fn fits(count: nfds_t, bytes: size_t) -> bool {
    bytes / size_of::<pollfd>() >= count as usize
}

hooks! {
    redhook fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t {
        // SAFETY: the program's own arguments; `len` bytes fit unless the real function aborts.
        unsafe {
            if len > size {
                return real()(fd, buf, len, size);
            }
            data::read::hooked(fd, buf, len)
        }
    }

    redhook fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own arguments; `len` bytes fit unless the real function aborts.
        unsafe {
            if len > size {
                return real()(fd, buf, len, size, flags);
            }
            data::recv::hooked(fd, buf, len, flags)
        }
    }

    redhook fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> ssize_t {
        // SAFETY: the program's own arguments; `len` bytes fit unless the real function aborts.
        unsafe {
            if len > size {
                return real()(fd, buf, len, size, flags, addr, addrlen);
            }
            data::recvfrom::hooked(fd, buf, len, flags, addr, addrlen)
        }
    }

    redhook fn __poll_chk(fds: *mut pollfd, count: nfds_t, ms: c_int, size: size_t) -> c_int {
        // SAFETY: the program's own arguments; `count` entries fit unless the real function aborts.
        unsafe {
            if !fits(count, size) {
                return real()(fds, count, ms, size);
            }
            readiness::poll::hooked(fds, count, ms)
        }
    }

    redhook fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int {
        // SAFETY: the program's own arguments; `count` entries fit unless the real function aborts.
        unsafe {
            if !fits(count, size) {
                return real()(fds, count, timeout, mask, size);
            }
            readiness::ppoll::hooked(fds, count, timeout, mask)
        }
    }
}
