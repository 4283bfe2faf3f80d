//! Thin, safe wrappers of the socket calls that std does not offer, for the test programs.
//!
//! Each is one libc call, because which call a program uses is what the tests vary.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

const QUEUE: c_int = 4096;

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn zero(result: c_int) -> io::Result<()> {
    count(result as isize).map(drop)
}

/// `send`.
pub fn send(fd: RawFd, data: &[u8], flags: c_int) -> io::Result<usize> {
    // SAFETY: pointer and length describe `data`.
    count(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) })
}

/// `recv`.
pub fn recv(fd: RawFd, data: &mut [u8], flags: c_int) -> io::Result<usize> {
    // SAFETY: pointer and length describe `data`, which we may write.
    count(unsafe { libc::recv(fd, data.as_mut_ptr().cast(), data.len(), flags) })
}

/// `write`.
pub fn write(fd: RawFd, data: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `data`.
    count(unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) })
}

/// `read`.
pub fn read(fd: RawFd, data: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `data`, which we may write.
    count(unsafe { libc::read(fd, data.as_mut_ptr().cast(), data.len()) })
}

/// `writev`.
pub fn writev(fd: RawFd, pieces: &[IoSlice]) -> io::Result<usize> {
    // SAFETY: IoSlice has the layout of iovec; the pieces outlive the call.
    count(unsafe { libc::writev(fd, pieces.as_ptr().cast(), pieces.len() as c_int) })
}

/// `readv`.
pub fn readv(fd: RawFd, pieces: &mut [IoSliceMut]) -> io::Result<usize> {
    // SAFETY: IoSliceMut has the layout of iovec; the pieces are writable and outlive the call.
    count(unsafe { libc::readv(fd, pieces.as_ptr().cast(), pieces.len() as c_int) })
}

fn message(pieces: *mut libc::iovec, length: usize) -> libc::msghdr {
    // SAFETY: all-zero is a valid msghdr: no name, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = pieces;
    header.msg_iovlen = length;
    header
}

/// `sendmsg` without control data.
pub fn sendmsg(fd: RawFd, pieces: &[IoSlice], flags: c_int) -> io::Result<usize> {
    let header = message(pieces.as_ptr().cast_mut().cast(), pieces.len());
    // SAFETY: IoSlice has the layout of iovec; sendmsg only reads the pieces.
    count(unsafe { libc::sendmsg(fd, &header, flags) })
}

/// `recvmsg` without control data.
pub fn recvmsg(fd: RawFd, pieces: &mut [IoSliceMut], flags: c_int) -> io::Result<usize> {
    let mut header = message(pieces.as_mut_ptr().cast(), pieces.len());
    // SAFETY: IoSliceMut has the layout of iovec; the pieces are writable and outlive the call.
    count(unsafe { libc::recvmsg(fd, &mut header, flags) })
}

/// SO_TIMESTAMPNS.
pub fn ask_for_stamps(fd: RawFd) -> io::Result<()> {
    let (on, len): (c_int, _) = (1, size_of::<c_int>() as libc::socklen_t);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    // SAFETY: the kernel reads an int.
    zero(unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), len) })
}

/// Receives a byte; whether the kernel has told when it came.
pub fn recv_stamped(fd: RawFd) -> io::Result<bool> {
    let (mut byte, mut control) = ([0_u8], [0_u64; 16]);
    let mut piece = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // SAFETY: all zero is a msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all that the message points to lives, and we may write it.
    count(unsafe { libc::recvmsg(fd, &raw mut message, 0) })?;
    Ok(message.msg_controllen > 0)
}

/// `sendfile` from `offset` of `file`.
pub fn sendfile(fd: RawFd, file: RawFd, offset: u64, length: usize) -> io::Result<usize> {
    let mut offset = offset as i64;
    // SAFETY: `offset` is a local that the call may write.
    count(unsafe { libc::sendfile(fd, file, &mut offset, length) })
}

/// `ioctl(FIONREAD)`: bytes that can be read now.
pub fn available(fd: RawFd) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: FIONREAD writes one int.
    zero(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut bytes) })?;
    Ok(bytes as usize)
}

/// Sets or clears O_NONBLOCK by `fcntl` (std's own way is `ioctl`).
pub fn set_nonblocking(fd: RawFd, on: bool) -> io::Result<()> {
    // SAFETY: plain integers.
    let flags = count(unsafe { libc::fcntl(fd, libc::F_GETFL) } as isize)? as c_int;
    let flags = if on {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: plain integers.
    zero(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) })
}

/// TCP_USER_TIMEOUT: how long sent bytes may stay without an acknowledgement.
pub fn set_user_timeout(fd: RawFd, milliseconds: c_int) -> io::Result<()> {
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, milliseconds)
}

/// Makes the next close reset the connection.
pub fn set_linger_zero(fd: RawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let (value, size) = ((&raw const linger).cast(), size_of::<libc::linger>() as u32);
    // SAFETY: a pointer to a local of that size.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, size) };
    assert_eq!(done, 0);
}

/// SO_KEEPALIVE: so long without a word the peer's kernel is asked, and so often; as many questions without an answer
/// are the end.
pub fn set_keep_alive(fd: RawFd, seconds: c_int, questions: c_int) -> io::Result<()> {
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds)?;
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, questions)?;
    set_number(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
}

fn set_number(fd: RawFd, level: c_int, name: c_int, number: c_int) -> io::Result<()> {
    let value = ptr::from_ref(&number).cast();
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe the number.
    zero(unsafe { libc::setsockopt(fd, level, name, value, length) })
}

/// `poll`; a negative timeout waits for ever. Gives the number of ready entries.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: c_int) -> io::Result<usize> {
    // SAFETY: pointer and length describe `fds`.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    count(ready as isize)
}

/// An entry for [`poll`].
pub fn pollfd(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits by `poll` until `fd` has one of `events` (or an error).
pub fn wait(fd: RawFd, events: i16) -> io::Result<()> {
    poll(&mut [pollfd(fd, events)], -1).map(drop)
}

/// `select` without a timeout: entries are as for [`poll`], and so is the answer.
pub fn select(fds: &mut [libc::pollfd]) -> io::Result<usize> {
    // SAFETY: all-zero is the empty set.
    let (mut read, mut write): (libc::fd_set, libc::fd_set) = unsafe { std::mem::zeroed() };
    let mut highest = 0;
    for entry in fds.iter() {
        assert!(
            (entry.fd as usize) < libc::FD_SETSIZE,
            "select takes no fd {}",
            entry.fd
        );
        highest = highest.max(entry.fd);
        if entry.events & libc::POLLIN != 0 {
            // SAFETY: the fd is below FD_SETSIZE.
            unsafe { libc::FD_SET(entry.fd, &mut read) };
        }
        if entry.events & libc::POLLOUT != 0 {
            // SAFETY: the fd is below FD_SETSIZE.
            unsafe { libc::FD_SET(entry.fd, &mut write) };
        }
    }
    let none = ptr::null_mut();
    // SAFETY: both sets are locals; the other pointers are null.
    let ready = unsafe { libc::select(highest + 1, &mut read, &mut write, none, ptr::null_mut()) };
    count(ready as isize)?;
    for entry in fds.iter_mut() {
        // SAFETY: the fd is below FD_SETSIZE, as checked above.
        let (readable, writable) = unsafe {
            (
                libc::FD_ISSET(entry.fd, &read),
                libc::FD_ISSET(entry.fd, &write),
            )
        };
        entry.revents = if readable { libc::POLLIN } else { 0 };
        entry.revents |= if writable { libc::POLLOUT } else { 0 };
    }
    Ok(fds.iter().filter(|entry| entry.revents != 0).count())
}

/// An epoll set, closed on drop.
pub struct Epoll(RawFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain integers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        count(fd as isize).map(|_| Self(fd))
    }

    /// Its number.
    pub fn fd(&self) -> RawFd {
        self.0
    }

    /// `epoll_ctl(EPOLL_CTL_ADD)`.
    pub fn add(&self, fd: RawFd, events: c_int, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    /// `epoll_ctl(EPOLL_CTL_MOD)`.
    pub fn modify(&self, fd: RawFd, events: c_int, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data)
    }

    /// `epoll_ctl(EPOLL_CTL_DEL)`.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, operation: c_int, fd: RawFd, events: c_int, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        // SAFETY: `event` is a local.
        zero(unsafe { libc::epoll_ctl(self.0, operation, fd, &mut event) })
    }

    /// `epoll_wait`: (events, data) of the ready members.
    pub fn wait(&self, timeout_ms: c_int) -> io::Result<Vec<(c_int, u64)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let capacity = events.len() as c_int;
        // SAFETY: pointer and capacity describe `events`.
        let ready = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), capacity, timeout_ms) };
        let ready = count(ready as isize)?;
        let pairs = events[..ready].iter();
        Ok(pairs
            .map(|event| (event.events as c_int, event.u64))
            .collect())
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: we own the fd.
        unsafe { libc::close(self.0) };
    }
}

/// Lowers one of this process's own limits.
pub fn limit(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: `limit` is a local.
    zero(unsafe { libc::setrlimit(resource, &limit) })
}

/// Lets this process have as many as `count` open fds, or as many as it may if it cannot raise its
/// hard limit; gives the number.
pub fn allow_fds(count: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a local.
    zero(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    let wish = libc::rlimit {
        rlim_cur: count,
        rlim_max: count.max(limit.rlim_max),
    };
    // SAFETY: `wish` is a local.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wish) } == 0 {
        return Ok(count);
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a local.
    zero(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(limit.rlim_cur)
}

/// A listener whose queue takes many connections at once (std's takes 128; a full queue costs the
/// client a second).
pub fn listen(address: (String, u16)) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // SAFETY: plain integers; a second listen only changes the length of the queue.
    zero(unsafe { libc::listen(listener.as_raw_fd(), QUEUE) })?;
    Ok(listener)
}

/// The machine's monotonic clock, which all processes share.
pub fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `fork`; true in the child. Only for programs that have one thread at that moment.
pub fn fork() -> io::Result<Forked> {
    // SAFETY: the callers are single-threaded, so the child may go on as an ordinary process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// Which side of [`fork`] this is.
pub enum Forked {
    /// The new process.
    Child,
    /// The old one, and its child's pid.
    Parent(libc::pid_t),
}

/// Waits for child `pid` and gives its wait status.
pub fn wait_child(pid: libc::pid_t) -> io::Result<c_int> {
    let mut status = 0;
    // SAFETY: `status` is a local.
    count(unsafe { libc::waitpid(pid, &mut status, 0) } as isize).map(|_| status)
}
