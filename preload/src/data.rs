//! Bytes in and out: read, write, recv, send and their vector forms.
//!
//! `read` and `write` on a socket are `recv` and `send` without flags, in the kernel and here; but for
//! a read, or a vector, of no bytes.

use libc::{c_int, c_void, iovec, off_t, off64_t, size_t, sockaddr, socklen_t, ssize_t};
use sockets::api::{self, First, Verdict};

/// UIO_MAXIOV; the kernel refuses longer vectors, so those are its business.
fn countable(count: c_int) -> bool {
    (0..=1024).contains(&count)
}

/// What `eventfd_read` and `eventfd_write` move.
const COUNT: usize = size_of::<u64>();

/// `preadv2` and `pwritev2` at this offset act as `readv` and `writev`, on sockets too.
const HERE: off64_t = -1;

/// What `preadv2` and `pwritev2` ask of a socket.
enum Positioned {
    /// The call without a position, with these message flags.
    Here(c_int),
    /// The kernel's business: other positions it refuses, other flags may be new.
    Kernel,
}

fn positioned(fd: c_int, count: c_int, offset: off64_t, flags: c_int) -> Positioned {
    const KNOWN: c_int =
        libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;
    if offset != HERE || !countable(count) {
        return Positioned::Kernel;
    }
    if flags & !KNOWN != 0 {
        api::to_kernel(fd);
        return Positioned::Kernel;
    }
    Positioned::Here(if flags & libc::RWF_NOWAIT != 0 {
        libc::MSG_DONTWAIT
    } else {
        0
    })
}

hooks! {
    redhook fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
        answer_first!(
            // SAFETY: the program's own buffer.
            unsafe { api::recv_first(fd, buf, len, 0) },
            api::read(fd, buf, len),
            real()(fd, buf, len)
        )
    }

    redhook fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        let verdict = || match countable(count) {
            // SAFETY: the program's own vector of `count` entries.
            true => unsafe { api::readv(fd, iov, count as usize, 0) },
            false => Verdict::Bypass,
        };
        answer!(verdict(), real()(fd, iov, count))
    }

    redhook fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        answer_first!(
            // SAFETY: the program's own buffer.
            unsafe { api::recv_first(fd, buf, len, flags) },
            api::recv(fd, buf, len, flags),
            real()(fd, buf, len, flags)
        )
    }

    redhook fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> ssize_t {
        let first = || match addr.is_null() {
            // SAFETY: the program's own buffer.
            true => unsafe { api::recv_first(fd, buf, len, flags) },
            false => First::Other,
        };
        answer_first!(
            first(),
            api::recvfrom(fd, buf, len, flags, addr, addrlen),
            real()(fd, buf, len, flags, addr, addrlen)
        )
    }

    redhook fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
        answer_first!(
            // SAFETY: the program's own buffer.
            unsafe { api::send_first(fd, buf, len, 0) },
            api::write(fd, buf, len),
            real()(fd, buf, len)
        )
    }

    redhook fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
        let verdict = || match countable(count) {
            // SAFETY: the program's own vector of `count` entries.
            true => unsafe { api::writev(fd, iov, count as usize, 0) },
            false => Verdict::Bypass,
        };
        answer!(verdict(), real()(fd, iov, count))
    }

    redhook fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        answer_first!(
            // SAFETY: the program's own buffer.
            unsafe { api::send_first(fd, buf, len, flags) },
            api::send(fd, buf, len, flags),
            real()(fd, buf, len, flags)
        )
    }

    /// A connected TCP socket ignores the address, if the kernel could read it.
    redhook fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addrlen: socklen_t) -> ssize_t {
        let good = addr.is_null() || api::takes_address(fd, addr, addrlen);
        let first = || match good {
            // SAFETY: the program's own buffer.
            true => unsafe { api::send_first(fd, buf, len, flags) },
            false => First::Other,
        };
        let verdict = || match good {
            // SAFETY: the program's own buffer.
            true => unsafe { api::send(fd, buf, len, flags) },
            // The kernel refuses it before it looks at the connection.
            false => api::guard(fd),
        };
        answer_first!(first(), verdict(), real()(fd, buf, len, flags, addr, addrlen))
    }

    redhook fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        answer!(api::sendfile(out, input, offset, count), real()(out, input, offset, count))
    }

    redhook fn sendfile64(out: c_int, input: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
        answer!(api::sendfile(out, input, offset, count), real()(out, input, offset, count))
    }

    /// At any other offset a socket fails (ESPIPE), by whichever carrier it goes.
    redhook fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
        let verdict = || match positioned(fd, count, offset, flags) {
            // SAFETY: the program's own vector of `count` entries.
            Positioned::Here(flags) => unsafe { api::readv(fd, iov, count as usize, flags) },
            Positioned::Kernel => Verdict::Bypass,
        };
        answer!(verdict(), real()(fd, iov, count, offset, flags))
    }

    redhook fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
        let verdict = || match positioned(fd, count, offset, flags) {
            // SAFETY: the program's own vector of `count` entries.
            Positioned::Here(flags) => unsafe { api::writev(fd, iov, count as usize, flags) },
            Positioned::Kernel => Verdict::Bypass,
        };
        answer!(verdict(), real()(fd, iov, count, offset, flags))
    }

    /// Inside libc these two are a read and a write, on whatever the number is.
    redhook fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
        // SAFETY: the program's own room for a count.
        let moved = unsafe { read::hooked(fd, value.cast(), COUNT) };
        if moved == COUNT as ssize_t { 0 } else { -1 }
    }

    redhook fn eventfd_write(fd: c_int, value: u64) -> c_int {
        // SAFETY: a count of our own.
        let moved = unsafe { write::hooked(fd, (&raw const value).cast(), COUNT) };
        if moved == COUNT as ssize_t { 0 } else { -1 }
    }
}

aliases! {
    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = read;
    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = write;
    fn __send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = send;
    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = preadv2;
    fn pwritev64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = pwritev2;
}
