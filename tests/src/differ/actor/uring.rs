//! An io_uring beside the sockets, as programs on libuv have one: it reads from a file before each step, and does some of
//! the calls of epoll_ctl. On kernel TCP the results of a program are the same with and without it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, epoll_event};

use super::outcome::{errno, set_errno};

/// Set by the controller for actors with a ring; exec keeps it.
pub const VARIABLE: &str = "DIFFER_URING";
/// Above the numbers that programs and the controller's pipes have.
const NUMBER: c_int = 760;
const ENTRIES: u32 = 8;

// include/uapi/linux/io_uring.h
const NO_SQARRAY: u32 = 1 << 16;
const ENTER_GETEVENTS: u32 = 1;
const OFFSET_RINGS: i64 = 0;
const OFFSET_ENTRIES: i64 = 0x1000_0000;
const OP_NOP: u8 = 0;
const OP_READ: u8 = 22;
const OP_EPOLL_CTL: u8 = 29;

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    unused: [u32; 7],
    sq: Offsets,
    cq: Offsets,
}

/// `struct io_sqring_offsets` and `struct io_cqring_offsets`: two words differ.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags_or_overflow: u32,
    dropped_or_cqes: u32,
    array: u32,
    unused: [u32; 3],
}

/// `struct io_uring_sqe`.
#[repr(C)]
#[derive(Default)]
struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: c_int,
    offset: u64,
    address: u64,
    length: u32,
    more: u32,
    user_data: u64,
    unused: [u64; 3],
}

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

struct Ring {
    fd: c_int,
    rings: *mut u8,
    entries: *mut Entry,
    params: Params,
    file: c_int,
}

// SAFETY: the mappings stay, and one thread at a time uses them, under the lock.
unsafe impl Send for Ring {}

static RING: Mutex<Option<Ring>> = Mutex::new(None);

/// Makes the process's ring, if it is to have one. A forked child has one of its own. A and its child have a ring as
/// libuv's, without an array of indices.
pub fn start(actor: usize) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let ring = Ring::new(if actor.is_multiple_of(2) {
        NO_SQARRAY
    } else {
        0
    });
    let inherited = RING.lock().expect("no thread panicked").replace(ring);
    if let Some(inherited) = inherited {
        for fd in [inherited.fd, inherited.file] {
            // SAFETY: nobody uses the parent's ring here.
            unsafe { libc::close(fd) };
        }
    }
}

/// Work that has nothing to do with sockets.
pub fn read_a_file() {
    let mut ring = RING.lock().expect("no thread panicked");
    if let Some(ring) = ring.as_mut() {
        let before = errno();
        ring.beside();
        ring.finish();
        set_errno(before);
    }
}

/// epoll_ctl through the ring, in one batch with other work; `None` if the process has no ring.
pub fn epoll_ctl(set: c_int, op: c_int, fd: c_int, event: &mut epoll_event) -> Option<i64> {
    let mut ring = RING.lock().expect("no thread panicked");
    let ring = ring.as_mut()?;
    let before = errno();
    ring.beside();
    ring.add(Entry {
        opcode: OP_EPOLL_CTL,
        fd: set,
        offset: fd as u32 as u64,
        address: (&raw mut *event) as u64,
        length: op as u32,
        ..Entry::default()
    });
    let result = ring.finish();
    set_errno(if result < 0 { -result } else { before });
    Some(if result < 0 { -1 } else { result.into() })
}

impl Ring {
    fn new(flags: u32) -> Self {
        let mut params = Params {
            flags,
            ..Params::default()
        };
        // SAFETY: the parameters are the kernel's structure.
        let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut params) };
        assert!(made >= 0, "io_uring_setup: errno {}", errno());
        let fd = raised(made as c_int);
        let submissions = params.sq.array + 4 * params.sq_entries;
        let completions =
            params.cq.dropped_or_cqes + params.cq_entries * size_of::<Completion>() as u32;
        let entries = params.sq_entries as usize * size_of::<Entry>();
        Self {
            fd,
            rings: map(fd, submissions.max(completions) as usize, OFFSET_RINGS),
            entries: map(fd, entries, OFFSET_ENTRIES).cast(),
            params,
            // SAFETY: a path.
            file: raised(unsafe { libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY) }),
        }
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are those of aligned words inside the mapping, which stays.
        unsafe { &*self.rings.add(offset as usize).cast::<AtomicU32>() }
    }

    /// Adds an entry; its number is the data that its completion brings.
    fn add(&mut self, entry: Entry) {
        let tail = self.word(self.params.sq.tail).load(Ordering::Relaxed);
        let index = tail & (self.params.sq_entries - 1);
        let entry = Entry {
            user_data: tail.into(),
            ..entry
        };
        // SAFETY: the index is below the number of entries. The kernel does not read this one before the tail moves.
        unsafe { self.entries.add(index as usize).write(entry) };
        if self.params.flags & NO_SQARRAY == 0 {
            let place = self.params.sq.array + 4 * index;
            self.word(place).store(index, Ordering::Relaxed);
        }
        let tail_word = self.word(self.params.sq.tail);
        tail_word.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// An operation that does nothing, and one on a file.
    fn beside(&mut self) {
        static ROOM: AtomicU32 = AtomicU32::new(0);
        self.add(Entry {
            opcode: OP_NOP,
            ..Entry::default()
        });
        self.add(Entry {
            opcode: OP_READ,
            fd: self.file,
            address: ROOM.as_ptr() as u64,
            length: size_of::<AtomicU32>() as u32,
            ..Entry::default()
        });
    }

    /// Submits what was added, waits for all of it, and gives the result of the last.
    fn finish(&mut self) -> i32 {
        let tail = self.word(self.params.sq.tail).load(Ordering::Relaxed);
        let mut left = tail.wrapping_sub(self.word(self.params.sq.head).load(Ordering::Acquire));
        let mut last = None;
        while left > 0 {
            self.enter(tail, left);
            while let Some(completion) = self.next() {
                left -= 1;
                if completion.user_data == u64::from(tail.wrapping_sub(1)) {
                    last = Some(completion.result);
                }
            }
        }
        last.expect("the last one has its completion")
    }

    fn enter(&self, tail: u32, wanted: u32) {
        let taken = self.word(self.params.sq.head).load(Ordering::Acquire);
        let none = std::ptr::null::<u8>();
        // SAFETY: no signal mask. A call that a signal has ended is made again for what is left.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.fd,
                tail.wrapping_sub(taken),
                wanted,
                ENTER_GETEVENTS,
                none,
                0,
            )
        };
        let interrupted = result < 0 && errno() == libc::EINTR;
        assert!(
            result >= 0 || interrupted,
            "io_uring_enter: errno {}",
            errno()
        );
    }

    fn next(&self) -> Option<Completion> {
        let head_word = self.word(self.params.cq.head);
        let head = head_word.load(Ordering::Relaxed);
        if head == self.word(self.params.cq.tail).load(Ordering::Acquire) {
            return None;
        }
        let index = head & (self.params.cq_entries - 1);
        let place = self.params.cq.dropped_or_cqes + index * size_of::<Completion>() as u32;
        // SAFETY: a completion inside the mapping, which the kernel has written before it moved the tail.
        let completion = unsafe { *self.rings.add(place as usize).cast::<Completion>() };
        head_word.store(head.wrapping_add(1), Ordering::Release);
        Some(completion)
    }
}

/// The same descriptor by a number that programs do not use: they show the numbers that they get.
fn raised(fd: c_int) -> c_int {
    // SAFETY: the descriptor is our own.
    let number = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, NUMBER) };
    assert!(number >= NUMBER, "F_DUPFD_CLOEXEC: errno {}", errno());
    // SAFETY: the same.
    unsafe { libc::close(fd) };
    number
}

fn map(fd: c_int, size: usize, offset: i64) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping of the ring's memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, fd, offset) };
    assert!(at != libc::MAP_FAILED, "mmap: errno {}", errno());
    at.cast()
}
