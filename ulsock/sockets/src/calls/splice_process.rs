//! A relay: a process of its own that copies between two sockets until both directions have ended.
//!
//! It is forked from a program that may have threads, so between fork and exit it makes raw system
//! calls only and allocates nothing. The program never sees it: it is nobody's child that it could
//! wait for, and no signal tells of it.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair, sockopt,
};

use os::fds::Transient;
use os::memory;
use os::raw;
use os::tcp;

type Receive<'a> = &'a dyn Fn(&mut [u8]) -> io::Result<usize>;

/// What a relay does.
pub struct Relay<'a> {
    pub ends: [BorrowedFd<'a>; 2],
    /// Called once in the new process.
    pub begin: &'a dyn Fn(),
    /// Receives from the first end, without waiting.
    pub receive: Receive<'a>,
}

/// Bytes of one direction on their way.
const BUFFER: usize = 64 << 10;
/// At most so many can be given to a relay.
pub const FIRST: usize = 256 << 10;

/// A relay that has been started and waits to begin; if it is dropped, the relay ends.
pub struct WaitingProcess {
    start: Transient,
    first: *mut u8,
}

impl WaitingProcess {
    /// Lets it begin, with bytes that go to the second end before anything else; that end is reset after them if the
    /// first one is `broken`.
    pub fn begin(self, first: &[u8], broken: bool) {
        let len = first.len().min(FIRST);
        // SAFETY: the relay reads this memory, which has room for FIRST bytes, only when told.
        unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), self.first, len) };
        let words = [len, usize::from(broken)].map(usize::to_ne_bytes);
        let _ = send(&self.start, words.as_flattened(), SendFlags::NOSIGNAL);
    }
}

impl Drop for WaitingProcess {
    fn drop(&mut self) {
        // SAFETY: exactly what `start` reserved; the relay has its own mapping.
        let _ = unsafe { rustix::mm::munmap(self.first.cast(), FIRST) };
    }
}

/// Starts a relay, which keeps both ends open for as long as it needs them.
pub fn start(relay: Relay<'_>) -> io::Result<WaitingProcess> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    let (near, far) = (Transient::new(near), Transient::new(far));
    let first = memory::reserve_shared(FIRST).ok_or(Errno::NOMEM)?;
    let waiting = WaitingProcess { start: near, first };
    let buffers = memory::reserve_private(2 * BUFFER).ok_or(Errno::NOMEM)?;
    let buffer =
        // SAFETY: fresh memory of twice that size, used by the relay's process alone.
        |at: usize| unsafe { std::slice::from_raw_parts_mut(buffers.add(at), BUFFER) };
    // Twice forked: the middle one ends at once, and the relay is init's. It is the middle one that lets go of the program's
    // descriptors, for we wait for it: who closes a listener afterwards can bind its address again.
    let middle = fork();
    if middle == Ok(0) {
        let [one, two] = relay.ends;
        close_all_but([one.as_raw_fd(), two.as_raw_fd(), far.as_raw_fd()]);
        let forked = fork();
        if forked == Ok(0) {
            run(&relay, &far, first, buffer(0), buffer(BUFFER));
        }
        exit(forked.is_err().into());
    }
    // SAFETY: exactly the range that was reserved; the relay has its own copy.
    let _ = unsafe { rustix::mm::munmap(buffers.cast(), 2 * BUFFER) };
    reap(middle?)?;
    Ok(waiting)
}

/// A bare fork whose child sends no signal at its end.
fn fork() -> io::Result<usize> {
    // SAFETY: a new process on a copy of our memory; none of libc's own state is touched.
    unsafe { raw::syscall(libc::SYS_clone, [0; 5]) }
}

/// Waits for the middle one, which says whether there was a place for the relay.
fn reap(child: usize) -> io::Result<()> {
    loop {
        let (mut status, flags) = (0i32, libc::__WCLONE as usize);
        let args = [child, &raw mut status as usize, flags, 0];
        // SAFETY: a pointer to a live local; usage is not asked for.
        match unsafe { raw::syscall(libc::SYS_wait4, args) } {
            Err(Errno::INTR) => {}
            Ok(_) if status != 0 => return Err(Errno::AGAIN),
            result => return result.map(drop),
        }
    }
}

fn exit(status: usize) -> ! {
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { raw::syscall(libc::SYS_exit_group, [status]) };
    }
}

/// What is to be sent first, and whether nothing but a reset follows; `None` when whoever started us has gone without
/// a word.
fn await_start(start: &Transient, first: *const u8) -> Option<(&[u8], bool)> {
    let mut words = [[0; size_of::<usize>()]; 2];
    loop {
        match recv(start, words.as_flattened_mut(), RecvFlags::empty()) {
            Ok((n, _)) if n == size_of_val(&words) => break,
            Err(Errno::INTR) => {}
            _ => return None,
        }
    }
    let [length, broken] = words.map(usize::from_ne_bytes);
    // SAFETY: the memory has room for FIRST bytes, and nobody writes it any more.
    let first = unsafe { std::slice::from_raw_parts(first, length.min(FIRST)) };
    Some((first, broken != 0))
}

fn run(relay: &Relay<'_>, start: &Transient, first: *const u8, there: &mut [u8], back: &mut [u8]) {
    let [one, two] = relay.ends;
    become_nobody();
    (relay.begin)();
    let Some((first, broken)) = await_start(start, first) else {
        return;
    };
    let plainly = |into: &mut [u8]| recv(two, into, RecvFlags::DONTWAIT).map(|(n, _)| n);
    let mut ways = [
        SpliceDirection::new(one, two, there, relay.receive),
        SpliceDirection::new(two, one, back, &plainly),
    ];
    (ways[0].first, ways[0].broken) = (first, Some(broken));
    loop {
        if ways[0].is_broken() {
            ways[0].go_on();
        }
        if ways[0].is_broken() && ways[0].ended {
            return reset(two);
        }
        if ways.iter().all(|way| way.ended) {
            return;
        }
        let events = [0, 1].map(|end| ways[0].wants(end == 0) | ways[1].wants(end == 1));
        let mut fds = [0, 1].map(|end| PollFd::from_borrowed_fd(relay.ends[end], events[end]));
        // An end that nobody wants anything of must not keep us awake by its hang-up.
        let listened = match events.map(|events| events.is_empty()) {
            [false, false] => 0..2,
            [false, true] => 0..1,
            [true, _] => 1..2,
        };
        if poll(&mut fds[listened], None).is_err_and(|errno| errno != Errno::INTR) {
            return;
        }
        if fds.iter().any(|fd| !fd.revents().is_empty()) {
            ways.iter_mut().for_each(SpliceDirection::go_on);
        }
    }
}

/// After all that has been sent there has arrived. The end itself is closed with this process.
fn reset(end: BorrowedFd<'_>) {
    while tcp::outq(end).is_ok_and(|left| left > 0) {
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let _ = poll(&mut [], Some(&pause));
    }
    let _ = sockopt::set_socket_linger(end, Some(Duration::ZERO));
}

fn close_all_but(mut kept: [RawFd; 3]) {
    kept.sort_unstable();
    let mut begin = 0;
    for end in kept.map(|fd| fd as usize).into_iter().chain([1 << 31]) {
        if begin < end {
            // SAFETY: takes no pointers.
            let _ = unsafe { raw::syscall(libc::SYS_close_range, [begin, end - 1, 0]) };
        }
        begin = end + 1;
    }
}

/// Nothing else of the program's is kept: no folder, no terminal, no handler.
fn become_nobody() {
    let _ = rustix::process::chdir(c"/");
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ulsock-relay");
    let (default, none) = ([0usize; 4], 0u64);
    let default = default.as_ptr() as usize;
    for signal in 1..=64 {
        // SAFETY: the kernel's form of the default action, alive until the call returns.
        let _ = unsafe { raw::syscall(libc::SYS_rt_sigaction, [signal, default, 0, 8]) };
    }
    let args = [libc::SIG_SETMASK as usize, &raw const none as usize, 0, 8];
    // SAFETY: a mask of eight bytes, alive until the call returns.
    let _ = unsafe { raw::syscall(libc::SYS_rt_sigprocmask, args) };
}

/// One direction.
struct SpliceDirection<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    receive: Receive<'a>,
    /// Given along, before what is read.
    first: &'a [u8],
    buffer: &'a mut [u8],
    begin: usize,
    end: usize,
    ended: bool,
    /// Where errors are passed on: whether one has ended it, or will when all is sent.
    broken: Option<bool>,
}

impl<'a> SpliceDirection<'a> {
    fn new(
        from: BorrowedFd<'a>,
        to: BorrowedFd<'a>,
        buffer: &'a mut [u8],
        receive: Receive<'a>,
    ) -> SpliceDirection<'a> {
        SpliceDirection {
            from,
            to,
            receive,
            first: &[],
            buffer,
            begin: 0,
            end: 0,
            ended: false,
            broken: None,
        }
    }

    fn is_broken(&self) -> bool {
        self.broken == Some(true)
    }

    fn pending(&self) -> &[u8] {
        if self.first.is_empty() {
            &self.buffer[self.begin..self.end]
        } else {
            self.first
        }
    }

    /// What this direction waits for at its source, or at its destination.
    fn wants(&self, at_source: bool) -> PollFlags {
        match (self.ended, self.pending().is_empty()) {
            (false, true) if at_source => PollFlags::IN,
            (false, false) if !at_source => PollFlags::OUT,
            _ => PollFlags::empty(),
        }
    }

    /// Moves what can be moved; neither end waits.
    fn go_on(&mut self) {
        while !self.ended {
            let moved = if self.pending().is_empty() {
                self.read()
            } else {
                self.write()
            };
            if !moved {
                return;
            }
        }
    }

    fn read(&mut self) -> bool {
        if self.is_broken() {
            self.ended = true;
            return true;
        }
        match (self.receive)(self.buffer) {
            Ok(n @ 1..) => (self.begin, self.end) = (0, n),
            Err(Errno::AGAIN | Errno::INTR) => return false,
            // The end of one side's stream is passed on.
            Err(_) if self.broken.is_some() => self.broken = Some(true),
            Ok(0) | Err(_) => self.end_with(self.to, Shutdown::Write),
        }
        true
    }

    fn write(&mut self) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(self.to, self.pending(), flags) {
            Ok(n) if self.first.is_empty() => self.begin += n,
            Ok(n) => self.first = &self.first[n..],
            Err(Errno::AGAIN | Errno::INTR) => return false,
            // Nobody reads there any more: whoever sends is told.
            Err(_) => self.end_with(self.from, Shutdown::Read),
        }
        true
    }

    fn end_with(&mut self, end: BorrowedFd<'_>, how: Shutdown) {
        self.ended = true;
        let _ = shutdown(end, how);
    }
}
