//! Birth and death of sockets and of fd numbers: socket, accept, connect, dup, close.

use crate::errno;
use libc::{EFAULT, EINPROGRESS, EINTR, c_int, c_uint, sockaddr, sockaddr_storage, socklen_t};
use sockets::api::{self, Verdict};
use std::mem::{MaybeUninit, size_of};

type RealAccept = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;

/// Accepts into a buffer of our own, because `api` wants the whole peer address and the program may
/// have given no buffer or a small one; then hands the address out as the kernel does: cut to the
/// program's buffer, with the full length. If the listener is not known to be TCP's, or the program's
/// buffer is bad, the call is the kernel's as it is.
unsafe fn accepting(
    fd: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
    flags: c_int,
    real: RealAccept,
) -> c_int {
    errno::keep(|| api::before_accept(fd));
    // SAFETY: `addr` and `addrlen` are the program's own; ours are sized as `len` says, and the
    // kernel fills at most that much.
    unsafe {
        let room = match addr.is_null() || !api::is_listener(fd) {
            true => None,
            false => api::load(addrlen),
        };
        if !addr.is_null() && room.is_none_or(|room| room.cast_signed() < 0) {
            let new = real(fd, addr, addrlen, flags);
            if new >= 0 {
                errno::keep(|| api::accepted(fd, new, None, flags));
            }
            return new;
        }
        let mut peer = MaybeUninit::<sockaddr_storage>::zeroed();
        let from = peer.as_mut_ptr().cast::<sockaddr>();
        let mut len = size_of::<sockaddr_storage>() as socklen_t;
        let new = real(fd, from, &mut len, flags);
        if new < 0 {
            return new;
        }
        errno::keep(|| api::accepted(fd, new, Some((from, len)), flags));
        let told = room.is_none_or(|room| {
            api::copy(addr.cast(), from.cast(), len.min(room) as usize) && api::store(addrlen, len)
        });
        if !told {
            // As in the kernel, the connection is gone.
            close::hooked(new);
            return errno::fail(EFAULT) as c_int;
        }
        new
    }
}

/// `accept` in the shape of `accept4`.
unsafe extern "C" fn accept_plain(
    fd: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
    _flags: c_int,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { accept::real()(fd, addr, addrlen) }
}

/// Tells `api` about a duplicate, if there is one.
fn duplicated(old: c_int, new: c_int) -> c_int {
    if new >= 0 {
        errno::keep(|| api::duped(old, new));
    }
    new
}

hooks! {
    redhook fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: plain numbers.
        let fd = unsafe { real()(domain, kind, protocol) };
        if fd >= 0 {
            errno::keep(|| api::socket_opened(fd, domain, kind, protocol));
        }
        fd
    }

    redhook fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        // SAFETY: the program's own array of two, which the kernel fills on success.
        unsafe {
            let result = real()(domain, kind, protocol, pair);
            if result == 0 {
                let both = [*pair, *pair.add(1)];
                errno::keep(|| api::pair_opened(both, domain, kind, protocol));
            }
            result
        }
    }

    redhook fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        answer!(api::guard(fd), real()(fd, addr, len))
    }

    redhook fn listen(fd: c_int, backlog: c_int) -> c_int {
        answer!(api::guard(fd), {
            let result = real()(fd, backlog);
            if result == 0 {
                errno::keep(|| api::listening(fd));
            }
            result
        })
    }

    redhook fn accept(fd: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
        answer!(api::guard(fd), accepting(fd, addr, addrlen, 0, accept_plain))
    }

    redhook fn accept4(fd: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t, flags: c_int) -> c_int {
        answer!(api::guard(fd), accepting(fd, addr, addrlen, flags, real()))
    }

    redhook fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        answer!(api::before_connect(fd, addr, len), {
            let result = real()(fd, addr, len);
            if result == 0 || matches!(errno::get(), EINPROGRESS | EINTR) {
                errno::keep(|| api::connected(fd, addr, len, result == 0));
            } else {
                errno::keep(|| api::not_connected(fd));
            }
            result
        })
    }

    redhook fn shutdown(fd: c_int, how: c_int) -> c_int {
        answer!(api::shutdown(fd, how), real()(fd, how))
    }

    redhook fn close(fd: c_int) -> c_int {
        answer!(api::close(fd), real()(fd))
    }

    by_hand fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        answer!(api::close_range(first, last, flags), real()(first, last, flags))
    }

    /// Returns nothing, so a failure has nowhere to go.
    by_hand fn closefrom(low: c_int) {
        if let Verdict::Bypass = api::close_range(low.max(0).cast_unsigned(), c_uint::MAX, 0) {
            // SAFETY: a plain number.
            unsafe { real()(low) }
        }
    }

    redhook fn dup(fd: c_int) -> c_int {
        answer!(api::guard(fd), duplicated(fd, real()(fd)))
    }

    /// Of a number onto itself it only checks that the number is open.
    redhook fn dup2(old: c_int, new: c_int) -> c_int {
        if old == new {
            return answer!(api::guard(old), real()(old, new));
        }
        answer!(api::dup_over(old, new, 0), duplicated(old, real()(old, new)))
    }

    redhook fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        if old == new {
            return answer!(api::guard(old), real()(old, new, flags));
        }
        answer!(api::dup_over(old, new, flags), duplicated(old, real()(old, new, flags)))
    }
}

aliases! {
    fn __close(fd: c_int) -> c_int = close;
    fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = connect;
    fn __dup2(old: c_int, new: c_int) -> c_int = dup2;
}
