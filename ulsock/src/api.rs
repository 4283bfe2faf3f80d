//! What the preload library calls: one function per intercepted libc call, nothing else.
//!
//! Every function may be called from any thread at any time and leaves `errno` alone.

use libc::{c_int, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off64_t, pollfd, sigset_t, sockaddr, socklen_t, timespec};

/// What became of an intercepted call.
#[must_use]
pub enum Verdict {
    /// Not ours: call the real function.
    Bypass,
    /// A TCP socket that is on kernel TCP: call the real function, then [`InFlight::done`].
    Kernel(InFlight),
    /// Done in user space with this result.
    Done(isize),
    /// Failed with this errno.
    Fail(c_int),
}

/// A kernel call on one of our sockets that is under way; dropping it ends the call.
pub struct InFlight {}

impl InFlight {
    /// Ends the call and counts what it moved (the real function's return value).
    pub fn done(self, _result: isize) {}
}

/// Load time, once, after all real functions have been resolved.
pub fn init() {}
/// The process ends (`_exit`, or our destructor after the program's own handlers).
pub fn exiting() {}

// Data.
pub unsafe fn recv(_fd: c_int, _buf: *mut c_void, _len: usize, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn recvv(_fd: c_int, _iov: *const iovec, _count: usize, _flags: c_int) -> Verdict { Verdict::Bypass }
/// `recvfrom` on a TCP socket: as `recv`, and `*addrlen` becomes 0.
pub unsafe fn recvfrom(_fd: c_int, _buf: *mut c_void, _len: usize, _flags: c_int, _addr: *mut sockaddr, _addrlen: *mut socklen_t) -> Verdict { Verdict::Bypass }
pub unsafe fn recvmsg(_fd: c_int, _msg: *mut msghdr, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn recvmmsg(_fd: c_int, _vec: *mut mmsghdr, _len: u32, _flags: c_int, _timeout: *mut timespec) -> Verdict { Verdict::Bypass }
pub unsafe fn send(_fd: c_int, _buf: *const c_void, _len: usize, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn sendv(_fd: c_int, _iov: *const iovec, _count: usize, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn sendmsg(_fd: c_int, _msg: *const msghdr, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn sendmmsg(_fd: c_int, _vec: *mut mmsghdr, _len: u32, _flags: c_int) -> Verdict { Verdict::Bypass }
pub unsafe fn sendfile(_out: c_int, _input: c_int, _offset: *mut off64_t, _count: usize) -> Verdict { Verdict::Bypass }

// Birth and death of fds.
/// After a successful `socket`.
pub fn socket_opened(_fd: c_int, _domain: c_int, _kind: c_int, _protocol: c_int) {}
/// After any other call that returned a new fd.
pub fn fd_opened(_fd: c_int) {}
/// Before `bind`, `listen`, `getsockname`, `getpeername`...: our internal fds do not exist for the program.
pub fn guard(_fd: c_int) -> Verdict { Verdict::Bypass }
pub fn listening(_fd: c_int) {}
/// After a successful `accept`; `addr` is the peer's address (the hook passes a buffer of its own when the program gave none).
pub unsafe fn accepted(_listener: c_int, _fd: c_int, _flags: c_int, _addr: *const sockaddr, _len: socklen_t) {}
/// After `connect` succeeded or said EINPROGRESS.
pub unsafe fn connected(_fd: c_int, _addr: *const sockaddr, _len: socklen_t) {}
/// Before `close`; `Bypass` means: now call the real one.
pub fn close(_fd: c_int) -> Verdict { Verdict::Bypass }
pub fn close_range(_first: u32, _last: u32, _flags: c_int) -> Verdict { Verdict::Bypass }
pub fn shutdown(_fd: c_int, _how: c_int) -> Verdict { Verdict::Bypass }
/// Before `dup2`/`dup3`.
pub fn dup_over(_old: c_int, _new: c_int) -> Verdict { Verdict::Bypass }
/// After any successful dup (also F_DUPFD).
pub fn duped(_old: c_int, _new: c_int) {}
pub unsafe fn fcntl(_fd: c_int, _cmd: c_int, _arg: c_ulong) -> Verdict { Verdict::Bypass }
pub unsafe fn ioctl(_fd: c_int, _request: c_ulong, _arg: c_ulong) -> Verdict { Verdict::Bypass }
pub unsafe fn getsockopt(_fd: c_int, _level: c_int, _name: c_int, _value: *mut c_void, _len: *mut socklen_t) -> Verdict { Verdict::Bypass }
pub unsafe fn setsockopt(_fd: c_int, _level: c_int, _name: c_int, _value: *const c_void, _len: socklen_t) -> Verdict { Verdict::Bypass }
/// Before a call that we do not handle on an accelerated connection (`splice`, `fdopen`, `dprintf`...).
pub fn to_kernel(_fd: c_int) {}
/// Before `sendmsg`/`sendmmsg` with control data, on any fd: it may pass our fds away.
pub unsafe fn passing_fds(_msg: *const msghdr) {}
/// After `recvmsg`/`recvmmsg` with control data: new fds may have come in.
pub unsafe fn received_fds(_msg: *const msghdr) {}

// Readiness. A `mask` of null leaves the signal mask alone; a `timeout` of null waits for ever.
pub unsafe fn poll(_fds: *mut pollfd, _count: nfds_t, _timeout: *const timespec, _mask: *const sigset_t) -> Verdict { Verdict::Bypass }
/// `timeout` is updated with the time left when `update` is set, as `select` (not `pselect`) does.
pub unsafe fn select(_nfds: c_int, _read: *mut fd_set, _write: *mut fd_set, _except: *mut fd_set, _timeout: *const timespec, _mask: *const sigset_t) -> Verdict { Verdict::Bypass }
pub fn epoll_opened(_fd: c_int) {}
pub unsafe fn epoll_ctl(_epfd: c_int, _op: c_int, _fd: c_int, _event: *mut epoll_event) -> Verdict { Verdict::Bypass }
pub unsafe fn epoll_wait(_epfd: c_int, _events: *mut epoll_event, _max: c_int, _timeout: *const timespec, _mask: *const sigset_t) -> Verdict { Verdict::Bypass }

// Processes and signals.
pub fn fork_prepare() {}
/// In the parent; `child` is the real function's result.
pub fn fork_parent(_child: c_int) {}
pub fn fork_child() {}
/// Before any exec.
pub fn before_exec() {}
/// Before `posix_spawn`, `system`, `popen`: libc forks and execs behind our back.
pub fn before_spawn() {}
pub type RealSigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
/// The whole of `sigaction`; sets errno itself through the real function.
pub unsafe fn sigaction(sig: c_int, act: *const libc::sigaction, old: *mut libc::sigaction, real: RealSigaction) -> c_int {
    // SAFETY: forwarded as given.
    unsafe { real(sig, act, old) }
}
/// A seccomp filter is about to load: from here on only pass-through.
pub fn before_seccomp() {}
/// `mlockall(MCL_FUTURE)`: sparse mappings would be filled; no new upgrades.
pub fn memory_locked() {}
