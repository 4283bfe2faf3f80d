//! Calls whose result says what they have moved.

use libc::{
    c_int, c_void, epoll_event, fd_set, iovec, nfds_t, off_t, off64_t, pollfd, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use trace::call::Call;

use crate::record::recorded;

/// Functions that libc exports, each with the call that it is and the descriptor that it is about.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $call:ident($fd:expr);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
                let real = real::$name();
                // SAFETY: the program's own arguments, handed on as it gave them.
                recorded(Call::$call, $fd, || unsafe { real($($arg),*) } as i64, |_| None) as $ret
            }
        )*

        mod real {
            use libc::*;

            use crate::real::Real;

            $(
                #[inline]
                pub fn $name() -> unsafe extern "C" fn($($ty),*) -> $ret {
                    const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                    static REAL: Real = Real::new(match std::ffi::CStr::from_bytes_with_nul(NAME) {
                        Ok(name) => name,
                        Err(_) => unreachable!(),
                    });
                    // SAFETY: the address is that of the function of this name, whose prototype this is.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> $ret>(REAL.get()) }
                }
            )*
        }

        /// Looks up the real functions of this file.
        pub const RESOLVE: &[fn()] = &[$(|| { real::$name(); }),*];
    };
}

/// For calls about many descriptors.
const NONE: c_int = -1;

functions! {
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = Connect(fd);
    fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = Connect(fd);
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int = Accept(fd);
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = Accept4(fd);
    fn shutdown(fd: c_int, how: c_int) -> c_int = Shutdown(fd);
    fn close(fd: c_int) -> c_int = Close(fd);
    fn __close(fd: c_int) -> c_int = Close(fd);

    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = Read(fd);
    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = Read(fd);
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t = Read(fd);
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = Readv(fd);
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = Preadv2(fd);
    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = Preadv2(fd);
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t = Recv(fd);
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t = Recv(fd);
    fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> ssize_t = Recvfrom(fd);
    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> ssize_t = Recvfrom(fd);

    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = Write(fd);
    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = Write(fd);
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = Writev(fd);
    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = Pwritev2(fd);
    fn pwritev64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = Pwritev2(fd);
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = Send(fd);
    fn __send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = Send(fd);
    fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addrlen: socklen_t) -> ssize_t = Sendto(fd);
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t = Sendfile(out);
    fn sendfile64(out: c_int, input: c_int, offset: *mut off64_t, count: size_t) -> ssize_t = Sendfile(out);

    fn poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int = Poll(NONE);
    fn __poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int = Poll(NONE);
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, ms: c_int, size: size_t) -> c_int = Poll(NONE);
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = Ppoll(NONE);
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int = Ppoll(NONE);
    fn select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int = Select(NONE);
    fn __select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int = Select(NONE);
    fn pselect(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int = Pselect(NONE);
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, ms: c_int) -> c_int = EpollWait(epfd);
    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, ms: c_int, mask: *const sigset_t) -> c_int = EpollPwait(epfd);
    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = EpollPwait2(epfd);
}
