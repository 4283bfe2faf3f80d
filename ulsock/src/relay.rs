//! A relay: a process of its own that copies between two sockets until both directions have ended.
//!
//! It is forked from a program that may have threads, so between fork and exit it makes raw system
//! calls only and allocates nothing. The program never sees it: it is nobody's child that it could
//! wait for, and no signal tells of it.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use libc::{c_int, c_long, pollfd, POLLERR, POLLHUP, POLLIN, POLLOUT};
use rustix::io::{self, Errno};

use crate::memory;
use crate::sys;

/// What a relay does.
pub struct Relay<'a> {
    pub ends: [BorrowedFd<'a>; 2],
    /// To be sent to the second end before anything else.
    pub first: &'a [u8],
    /// Called once in the new process.
    pub begin: &'a dyn Fn(),
    /// Receives from the first end, without waiting.
    pub receive: &'a dyn Fn(&mut [u8]) -> io::Result<usize>,
}

/// Bytes of one direction on their way.
const BUFFER: usize = 64 << 10;

/// Starts the relay, which keeps both ends open for as long as it needs them.
pub fn start(relay: Relay<'_>) -> io::Result<()> {
    let buffers = memory::reserve_private(2 * BUFFER).ok_or(Errno::NOMEM)?;
    // SAFETY: fresh memory of that size, used by the relay's process alone.
    let buffers =
        [0, BUFFER].map(|at| unsafe { std::slice::from_raw_parts_mut(buffers.add(at), BUFFER) });
    // Twice forked: the middle one ends at once, and the relay is init's.
    let middle = fork()?;
    if middle != 0 {
        return reap(middle);
    }
    if let Ok(0) = fork() {
        run(&relay, buffers);
    }
    exit()
}

/// A bare fork whose child sends no signal at its end.
fn fork() -> io::Result<usize> {
    // SAFETY: a new process on a copy of our memory; none of libc's own state is touched.
    sys::result(|| unsafe {
        libc::syscall(libc::SYS_clone, 0usize, 0usize, 0usize, 0usize, 0usize)
    })
}

fn reap(child: usize) -> io::Result<()> {
    let none = std::ptr::null_mut::<c_int>();
    let flags = libc::__WCLONE;
    loop {
        // SAFETY: the status is not asked for.
        match sys::result(|| unsafe { libc::syscall(libc::SYS_wait4, child, none, flags, none) }) {
            Err(Errno::INTR) => {}
            result => return result.map(drop),
        }
    }
}

fn exit() -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { libc::syscall(libc::SYS_exit_group, 0usize) };
    }
}

fn run(relay: &Relay<'_>, [there, back]: [&mut [u8]; 2]) {
    let [one, two] = relay.ends.map(|end| end.as_raw_fd());
    become_nobody(one, two);
    (relay.begin)();
    let plainly = |into: &mut [u8]| receive(two, into);
    let mut ways = [
        Way::new(one, two, there, relay.receive),
        Way::new(two, one, back, &plainly),
    ];
    ways[0].first = relay.first;
    while ways.iter().any(|way| !way.ended) {
        let mut fds = [one, two].map(|fd| pollfd {
            fd,
            events: ways.iter().fold(0, |events, way| events | way.wants(fd)),
            revents: 0,
        });
        // An end that nobody wants anything of must not keep us awake by its hang-up.
        for fd in fds.iter_mut().filter(|fd| fd.events == 0) {
            fd.fd = -1;
        }
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: two entries.
        let ready = sys::result(|| unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                fds.as_mut_ptr(),
                2usize,
                none,
                none,
                8usize,
            )
        });
        if ready.is_err_and(|errno| errno != Errno::INTR) {
            return;
        }
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            ways.iter_mut().for_each(|way| way.go_on(fd.fd, fd.revents));
        }
    }
}

fn receive(from: RawFd, into: &mut [u8]) -> io::Result<usize> {
    let (to, len) = (into.as_mut_ptr(), into.len());
    let (flags, none) = (libc::MSG_DONTWAIT, std::ptr::null_mut::<u8>());
    // SAFETY: `into` has `len` bytes.
    sys::result(|| unsafe { libc::syscall(libc::SYS_recvfrom, from, to, len, flags, none, none) })
}

/// Nothing of the program's is kept: no descriptor, no folder, no terminal, no handler.
fn become_nobody(one: RawFd, two: RawFd) {
    let (low, high) = (one.min(two) as usize, one.max(two) as usize);
    let action = [0usize; 4];
    let mask = 0u64;
    let close = |first: usize, last: usize| {
        if first <= last {
            // SAFETY: takes no pointers.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0usize) };
        }
    };
    if low > 0 {
        close(0, low - 1);
    }
    close(low + 1, high - 1);
    close(high + 1, u32::MAX as usize);
    // SAFETY: a C string, plain numbers, and an action and mask that are the kernel's "default" and
    // "none", all alive until the calls return.
    unsafe {
        libc::syscall(libc::SYS_chdir, c"/".as_ptr());
        libc::syscall(libc::SYS_setsid);
        libc::syscall(
            libc::SYS_prctl,
            libc::PR_SET_NAME as c_long,
            c"ulsock-relay".as_ptr(),
        );
        let none = std::ptr::null_mut::<usize>();
        for signal in 1..=64usize {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                action.as_ptr(),
                none,
                8usize,
            );
        }
        let set = libc::SIG_SETMASK as usize;
        libc::syscall(libc::SYS_rt_sigprocmask, set, &raw const mask, none, 8usize);
    }
}

/// One direction.
struct Way<'a> {
    from: RawFd,
    to: RawFd,
    receive: &'a dyn Fn(&mut [u8]) -> io::Result<usize>,
    /// Given along, before what is read.
    first: &'a [u8],
    buffer: &'a mut [u8],
    begin: usize,
    end: usize,
    /// Nothing more comes from `from`.
    eof: bool,
    ended: bool,
}

impl<'a> Way<'a> {
    fn new(
        from: RawFd,
        to: RawFd,
        buffer: &'a mut [u8],
        receive: &'a dyn Fn(&mut [u8]) -> io::Result<usize>,
    ) -> Way<'a> {
        Way {
            from,
            to,
            receive,
            first: &[],
            buffer,
            begin: 0,
            end: 0,
            eof: false,
            ended: false,
        }
    }

    fn pending(&self) -> &[u8] {
        if self.first.is_empty() {
            &self.buffer[self.begin..self.end]
        } else {
            self.first
        }
    }

    /// What this direction waits for at `fd`.
    fn wants(&self, fd: RawFd) -> i16 {
        let writes = !self.pending().is_empty();
        match self.ended {
            false if fd == self.from && !writes => POLLIN,
            false if fd == self.to && writes => POLLOUT,
            _ => 0,
        }
    }

    fn go_on(&mut self, fd: RawFd, events: i16) {
        let broken = events & (POLLERR | POLLHUP) != 0;
        if fd == self.to && (events & POLLOUT != 0 || broken) {
            self.write();
        }
        if fd == self.from && (events & POLLIN != 0 || broken) {
            self.read();
        }
    }

    fn read(&mut self) {
        if self.ended || self.eof || !self.pending().is_empty() {
            return;
        }
        match (self.receive)(self.buffer) {
            Ok(0) => self.finish(),
            Ok(n) => {
                (self.begin, self.end) = (0, n);
                self.write();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.finish(),
        }
    }

    fn write(&mut self) {
        while !self.ended && !self.pending().is_empty() {
            let (to, none) = (self.to, std::ptr::null_mut::<u8>());
            let (bytes, len) = (self.pending().as_ptr(), self.pending().len());
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the bytes are `len`.
            match sys::result(|| unsafe {
                libc::syscall(libc::SYS_sendto, to, bytes, len, flags, none, 0usize)
            }) {
                Ok(n) if self.first.is_empty() => self.begin += n,
                Ok(n) => self.first = &self.first[n..],
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.give_up(),
            }
        }
    }

    /// The end of one side's stream is passed on.
    fn finish(&mut self) {
        self.eof = true;
        self.ended = true;
        let (to, how) = (self.to, libc::SHUT_WR);
        // SAFETY: takes no pointers.
        let _ = sys::result(|| unsafe { libc::syscall(libc::SYS_shutdown, to, how) });
    }

    /// Nobody reads there any more: whoever sends is told.
    fn give_up(&mut self) {
        self.ended = true;
        let (from, how) = (self.from, libc::SHUT_RD);
        // SAFETY: takes no pointers.
        let _ = sys::result(|| unsafe { libc::syscall(libc::SYS_shutdown, from, how) });
    }
}
