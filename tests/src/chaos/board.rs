//! The board: shared memory where each end of a conversation writes how far it is. What a killed process has done
//! stays readable there, so that the master can account for every conversation, and see one that does not move.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sock;

/// Conversations that may be open, or over and not yet judged.
const PAIRS: u64 = 1 << 17;

/// Nobody has begun at this end.
pub const UNBORN: u64 = 0;
/// It talks.
pub const TALKING: u64 = 1;
/// All bytes and the end of the stream have come.
pub const DONE: u64 = 2;
/// The stream ended early, or by an error.
pub const BROKEN: u64 = 3;
/// A byte was wrong, or an error came that no death of a peer explains.
pub const WRONG: u64 = 4;

/// One end of a conversation.
#[repr(C, align(128))]
pub struct Slot {
    /// One of the constants above.
    pub state: AtomicU64,
    /// The process that talks.
    pub pid: AtomicU64,
    /// The number of the server that was called; of the caller's slot only.
    pub target: AtomicU64,
    /// 1 if the server is a real program, which writes nothing here.
    pub real: AtomicU64,
    /// When the conversation began, and ended.
    pub began: AtomicU64,
    /// Nanoseconds, as of [`now`].
    pub ended: AtomicU64,
    /// Bytes that send has returned for.
    pub sent: AtomicU64,
    /// Bytes that were received and checked.
    pub received: AtomicU64,
    /// Bytes to send, if nobody dies.
    pub plan: AtomicU64,
    /// The errno that ended it; 0 for an end of stream that came early.
    pub how: AtomicU64,
}

/// What all conversations share.
#[repr(C, align(4096))]
struct Head {
    next: AtomicU64,
    clients_end: AtomicU64,
    servers_end: AtomicU64,
    execs: AtomicU64,
    passes: AtomicU64,
}

/// A mapping of the board, which stays until the process ends.
#[derive(Clone, Copy)]
pub struct Board {
    head: &'static Head,
    slots: &'static [[Slot; 2]],
}

/// The machine's monotonic clock in nanoseconds.
pub fn now() -> u64 {
    sock::now().as_nanos() as u64
}

impl Board {
    /// Maps the board at `path`, which is made if it is not there.
    pub fn open(path: &Path) -> Self {
        let length = size_of::<Head>() + PAIRS as usize * size_of::<[Slot; 2]>();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).expect("the board");
        file.set_len(length as u64).expect("the board");
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (none, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
        // SAFETY: a new mapping, which nobody removes; the file has this length and is never cut.
        let start = unsafe { libc::mmap(none, length, protection, shared, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED, "map the board");
        // SAFETY: the mapping is page-aligned, of this length, and holds atomics only, for which all zero is valid.
        unsafe {
            let pairs = start.byte_add(size_of::<Head>()).cast::<[Slot; 2]>();
            Self {
                head: &*start.cast::<Head>(),
                slots: std::slice::from_raw_parts(pairs, PAIRS as usize),
            }
        }
    }

    /// Begins a conversation with server `target` and gives its number.
    pub fn begin(&self, target: u64, real: bool) -> u64 {
        let id = self.head.next.fetch_add(1, Ordering::AcqRel);
        for slot in self.pair(id) {
            slot.clear();
        }
        let caller = &self.pair(id)[0];
        caller.target.store(target, Ordering::Relaxed);
        caller.real.store(u64::from(real), Ordering::Relaxed);
        caller.enter();
        id
    }

    /// Both ends of conversation `id`: who called, and who was called.
    pub fn pair(&self, id: u64) -> &'static [Slot; 2] {
        &self.slots[(id % PAIRS) as usize]
    }

    /// How many conversations have begun.
    pub fn begun(&self) -> u64 {
        self.head.next.load(Ordering::Acquire)
    }

    /// Whether the master still has room for conversations that it has not judged, from `low` on.
    pub fn has_room(&self, low: u64) -> bool {
        self.begun() - low < PAIRS / 2
    }

    /// Whether clients, or servers, are to end.
    pub fn ends(&self, servers: bool) -> bool {
        self.flag(servers).load(Ordering::Acquire) != 0
    }

    /// Tells clients, or servers, whether to end.
    pub fn tell(&self, servers: bool, end: bool) {
        self.flag(servers).store(u64::from(end), Ordering::Release);
    }

    fn flag(&self, servers: bool) -> &AtomicU64 {
        match servers {
            true => &self.head.servers_end,
            false => &self.head.clients_end,
        }
    }

    /// A connection is about to go through an exec.
    pub fn count_exec(&self) {
        self.head.execs.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was passed to another process.
    pub fn count_pass(&self) {
        self.head.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections went through an exec, and how many were passed.
    pub fn handed(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.head.execs), load(&self.head.passes))
    }
}

impl Slot {
    fn clear(&self) {
        let words = [
            &self.pid,
            &self.target,
            &self.real,
            &self.began,
            &self.ended,
            &self.sent,
            &self.received,
            &self.plan,
            &self.how,
            &self.state,
        ];
        for word in words {
            word.store(0, Ordering::Release);
        }
    }

    /// This process talks at this end from now on.
    pub fn enter(&self) {
        self.pid
            .store(u64::from(std::process::id()), Ordering::Relaxed);
        if self.state.load(Ordering::Acquire) == UNBORN {
            self.began.store(now(), Ordering::Relaxed);
        }
        self.state.store(TALKING, Ordering::Release);
    }

    /// The conversation is over at this end.
    pub fn leave(&self, state: u64, how: u64) {
        self.how.store(how, Ordering::Relaxed);
        self.ended.store(now(), Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
    }

    /// How far it is, for people.
    pub fn text(&self) -> String {
        let load = |word: &AtomicU64| word.load(Ordering::Acquire);
        let names = ["unborn", "talking", "done", "broken", "WRONG"];
        let state = names.get(load(&self.state) as usize).unwrap_or(&"?");
        format!(
            "pid {} {state}: sent {} of {}, received {}, errno {}",
            load(&self.pid),
            load(&self.sent),
            load(&self.plan),
            load(&self.received),
            load(&self.how),
        )
    }
}
