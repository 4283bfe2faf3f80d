//! The socket record: what the processes that share a TCP socket know about it together.
//!
//! Records live in the *family* mapping, which a process shares with its forked children and which
//! `ulsock top` reads. Everything is atomic or guarded by a side lock in the record itself. All
//! zero is a free record.

mod address;
pub mod flag;
mod nic;
mod owed;
mod unix;
mod worth;

use std::cell::UnsafeCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use netstack::ring::{Carrier, Gate, OrderWord, RxState, SideLock, TxState};
use netstack::shared_memory::InSharedMemory;

use crate::runtime::read_batching;
use crate::runtime::thread::{self, Watchers};
use crate::runtime::way::Way;
pub use address::{Address, Endpoint};
pub use nic::{NOTHING_WAITS, Nic};
pub use owed::Owed;
use rendezvous::reason::Reason;
use shm::order;
pub use unix::UnixCounts;
pub use worth::{PerMessage, Worth};

/// Who carries the connection, as far as this side is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    /// Kernel TCP as it is; calls are counted on their way.
    Plain,
    /// A ring pair exists; each direction is on the kernel or on a ring.
    Managed,
    /// Closed, with a thread still inside a kernel call on it: the record is not used again.
    Out,
}

impl State {
    fn from_number(number: u32) -> State {
        match number {
            1 => State::Plain,
            2 => State::Managed,
            3 => State::Out,
            _ => State::Free,
        }
    }

    fn number(self) -> u32 {
        match self {
            State::Free => 0,
            State::Plain => 1,
            State::Managed => 2,
            State::Out => 3,
        }
    }
}

/// Which end of the connection we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It called connect: it makes the offer.
    Connected,
    /// It was accepted: it makes the claim.
    Accepted,
}

/// Bytes and calls of one direction, by carrier.
#[derive(Default)]
#[repr(C)]
pub struct Counts {
    pub messages: AtomicU64,
    pub ring_bytes: AtomicU64,
    pub kernel_bytes: AtomicU64,
}

impl Counts {
    #[inline]
    fn reset(&self) {
        for counter in [&self.ring_bytes, &self.kernel_bytes, &self.messages] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// What a kernel call has moved, by its return value.
    #[inline]
    pub fn moved_by_kernel(&self, result: isize) {
        if result > 0 {
            Counts::add(&self.kernel_bytes, result as u64);
            Counts::add(&self.messages, 1);
        }
    }

    /// Only one thread at a time (under the side lock), or an estimate: no locked instruction.
    #[inline]
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

/// One direction of this side: lock, gate, waiter slots, counts, state. What a plain connection needs
/// of it is in the first cache line, what every call on rings needs in the first two.
#[repr(C, align(64))]
pub struct Side<S> {
    pub lock: SideLock,
    pub gate: Gate,
    /// Waiter slots in use.
    pub slots: AtomicU32,
    /// See [`Side::carrier`]: 0 kernel, else ring level + 1.
    carrier: AtomicU8,
    /// Receives that found nothing without waiting; the send that looks at the clock next.
    pub glances: AtomicU64,
    pub counts: Counts,
    pub state: UnsafeCell<S>,
    /// When one of them last looked at the clock.
    pub glanced: AtomicU64,
    /// When one of them last asked the kernel socket, of those that do not at every tick.
    pub asked: AtomicU64,
}

// SAFETY: `state` is touched only under `lock`.
unsafe impl<S> Sync for Side<S> {}

impl<S> Side<S> {
    /// Who carries this direction right now, as its last call has found it. The protocol's own word is in `state`, under
    /// the lock; this one is for a look without it, and for `ulsock top`.
    #[inline]
    pub fn carrier(&self) -> Carrier {
        match self.carrier.load(Ordering::Relaxed) {
            0 => Carrier::Kernel,
            number => Carrier::Ring(number - 1),
        }
    }

    #[inline]
    pub fn set_carrier(&self, carrier: Carrier) {
        let number = match carrier {
            Carrier::Kernel => 0,
            Carrier::Ring(level) => level + 1,
        };
        self.carrier.store(number, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_on_ring(&self) -> bool {
        self.carrier() != Carrier::Kernel
    }
}

#[repr(C, align(64))]
pub struct Record {
    state: AtomicU32,
    flags: AtomicU32,
    /// Processes that hold the socket. Too high after a crash, which only keeps it on the kernel.
    pub procs: AtomicU32,
    reason: AtomicU32,
    /// Data calls so far, and at which of them to look for the peer next.
    pub calls: AtomicU32,
    pub next_look: AtomicU32,
    /// At which of them the first look is, and the history that says so.
    pub first_look: AtomicU32,
    pub history: AtomicU32,
    pub pid: AtomicU32,
    /// When it became one of a connection: nanoseconds since 1970.
    pub born: AtomicU64,
    /// Raised at each use of this record for another socket.
    pub generation: AtomicU32,
    pub recv_timeout_us: AtomicU64,
    pub send_timeout_us: AtomicU64,
    pub recv_lowat: AtomicU32,
    /// How often the program did what wakes all sleepers on a kernel socket (sending shut down, another
    /// send buffer): this ends an empty receive.
    pub wake_generation: AtomicU32,
    /// Once it has a slip.
    pub cookie: AtomicU64,
    /// What is asked of it from outside: see [`crate::state::orders`].
    pub order: OrderWord,
    /// The largest ring level to send on.
    pub largest: AtomicU32,
    /// Whose sets have had the socket: see [`Watchers`].
    watchers: AtomicU32,
    /// Calls that must be finished as they were begun: see [`crate::conn::pinned_calls`].
    pub midway: AtomicU32,
    local: Address,
    peer: Address,
    pub tx: Side<TxState>,
    pub rx: Side<RxState>,
    pub nic: Nic,
    pub unix: UnixCounts,
}

// SAFETY: every field is an atomic integer, a lock or a gate, which are such, or an address or counts, which consist of them;
// or it is a cell that the lock of its direction protects (`Nic`: that of the sending one). In the cells are numbers and bytes
// only, which have a value for any pattern of bits, and a `MaybeUninit`, which promises nothing. No field has a destructor.
unsafe impl InSharedMemory for Record {}

impl Record {
    #[inline]
    pub fn state(&self) -> State {
        State::from_number(self.state.load(Ordering::Acquire))
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state.number(), Ordering::Release);
    }

    /// Nobody will ever manage it: its calls need not be known.
    #[inline]
    pub fn stays_on_kernel(&self) -> bool {
        self.has(flag::STAYS)
    }

    /// Takes a free record for a new socket.
    #[inline]
    pub fn claim(&self) -> bool {
        let (free, plain) = (State::Free.number(), State::Plain.number());
        // Most that are looked at are not free, and to see that takes no locked instruction.
        let claimed = self.state.load(Ordering::Relaxed) == free
            && self
                .state
                .compare_exchange(free, plain, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if claimed {
            self.reset();
        }
        claimed
    }

    fn reset(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        if generation == 0 || self.has(flag::USED) {
            self.reset_sides();
        }
        self.flags.store(0, Ordering::Relaxed);
        self.procs.store(1, Ordering::Relaxed);
        self.reason.store(Reason::Young as u32, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
        self.next_look.store(0, Ordering::Relaxed);
        self.generation
            .store(generation.wrapping_add(1), Ordering::Release);
        self.recv_timeout_us.store(0, Ordering::Relaxed);
        self.send_timeout_us.store(0, Ordering::Relaxed);
        self.recv_lowat.store(1, Ordering::Relaxed);
        self.wake_generation.store(0, Ordering::Relaxed);
        self.largest.store(u32::MAX, Ordering::Relaxed);
        self.local.forget();
        self.peer.forget();
        self.unix.reset();
        self.tx.counts.reset();
        self.rx.counts.reset();
    }

    /// What only a managed connection changes.
    #[cold]
    fn reset_sides(&self) {
        self.watchers.store(0, Ordering::Relaxed);
        self.midway.store(0, Ordering::Relaxed);
        reset_side(&self.tx);
        reset_side(&self.rx);
        self.nic.reset();
    }

    /// This process holds the socket no more; whether it was the last.
    #[inline]
    pub fn leave(&self) -> bool {
        if self.is_mine_alone() {
            self.procs.store(0, Ordering::Relaxed);
            return true;
        }
        self.procs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Does nobody but the calling thread use it? (Another process begins to by this one's fork.)
    #[inline]
    pub fn is_mine_alone(&self) -> bool {
        thread::is_single() && self.procs.load(Ordering::Acquire) == 1
    }

    #[inline]
    pub fn has(&self, flag: u32) -> bool {
        self.those(flag) != 0
    }

    /// Those of `flags` that it has.
    #[inline]
    pub fn those(&self, flags: u32) -> u32 {
        self.flags.load(Ordering::Relaxed) & flags
    }

    /// Another process holds it too.
    pub fn share(&self) {
        self.set(flag::SHARED);
        self.procs.fetch_add(1, Ordering::AcqRel);
    }

    pub fn set(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::Relaxed);
    }

    /// Sets a flag; whether it was not there before.
    pub fn begin(&self, flag: u32) -> bool {
        self.flags.fetch_or(flag, Ordering::AcqRel) & flag == 0
    }

    /// Clears a flag, and sees what was written before it was set.
    pub fn take(&self, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::AcqRel);
    }

    pub fn clear(&self, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::Relaxed);
    }

    pub fn put(&self, flag: u32, on: bool) {
        if on {
            self.set(flag);
        } else {
            self.clear(flag);
        }
    }

    pub fn role(&self) -> Role {
        if self.has(flag::CONNECTED) {
            Role::Connected
        } else {
            Role::Accepted
        }
    }

    /// This thread's set has the socket from now on.
    pub fn note_watcher(&self, index: usize) {
        let me = index as u32 + 1;
        let noted = self
            .watchers
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst);
        if noted.is_err_and(|other| other != me) {
            self.watchers.store(u32::MAX, Ordering::SeqCst);
        }
    }

    pub fn watchers(&self) -> Watchers {
        match self.watchers.load(Ordering::SeqCst) {
            0 => Watchers::None,
            u32::MAX => Watchers::Several,
            number => Watchers::One(number as usize - 1),
        }
    }

    /// Bytes by carrier: ring sent, ring received, kernel sent, kernel received.
    pub fn carried(&self) -> [&AtomicU64; 4] {
        let (tx, rx) = (&self.tx.counts, &self.rx.counts);
        [
            &tx.ring_bytes,
            &rx.ring_bytes,
            &tx.kernel_bytes,
            &rx.kernel_bytes,
        ]
    }

    #[inline]
    pub fn gate(&self, way: Way) -> &Gate {
        match way {
            Way::Out => &self.tx.gate,
            Way::In => &self.rx.gate,
        }
    }

    #[inline]
    pub fn counts(&self, way: Way) -> &Counts {
        match way {
            Way::Out => &self.tx.counts,
            Way::In => &self.rx.counts,
        }
    }

    /// Where its stream of receives is.
    #[inline]
    pub fn place(&self) -> read_batching::StreamPoint {
        read_batching::StreamPoint {
            from: std::ptr::from_ref(self) as usize,
            sent: self.tx.counts.messages.load(Ordering::Relaxed),
        }
    }

    /// Ends a kernel call on a plain connection.
    #[inline]
    pub fn kernel_call_ended(&self, way: Way, result: isize) {
        if way == Way::Out && result > 0 {
            order::spoke_by_kernel();
        }
        self.counts(way).moved_by_kernel(result);
        self.count_unix(way, result);
        self.gate(way).leave();
    }

    pub fn reason(&self) -> Reason {
        Reason::from_number(self.reason.load(Ordering::Relaxed))
    }

    /// The next data call tries to upgrade it.
    pub fn look_soon(&self) {
        let calls = self.calls.load(Ordering::Relaxed);
        self.next_look
            .store(calls.saturating_add(1), Ordering::Relaxed);
    }

    pub fn set_reason(&self, reason: Reason) {
        self.reason.store(reason as u32, Ordering::Relaxed);
    }

    pub fn set_addresses(&self, local: SocketAddr, peer: SocketAddr) {
        self.local.set(local);
        self.peer.set(peer);
    }

    #[inline]
    pub fn set_peer(&self, peer: SocketAddr) {
        self.peer.set(peer);
    }

    /// A Unix socket has become an end of a connection. Numbers are asked for when they are needed.
    pub fn set_unix(&self) {
        self.local.set_inode(0);
        self.peer.set_inode(0);
    }

    /// It is none after all.
    pub fn unset_unix(&self) {
        self.local.forget();
        self.peer.forget();
    }

    pub fn set_inodes(&self, local: u32, peer: u32) {
        self.local.set_inode(local);
        self.peer.set_inode(peer);
    }

    #[inline]
    pub fn is_unix(&self) -> bool {
        self.peer.is_unix()
    }

    /// The numbers of both ends of a Unix connection, our own first.
    pub fn inodes(&self) -> Option<(u32, u32)> {
        self.local.inode().zip(self.peer.inode())
    }

    /// A kernel call on a connection that is not managed has moved so many bytes.
    #[inline]
    pub fn count_unix(&self, way: Way, result: isize) {
        if result > 0 && self.is_unix() {
            self.unix.add(way, result as u64);
        }
    }

    /// Is the other record that of our other end?
    pub fn is_end_of(&self, other: &Record) -> bool {
        self.local.is(&other.peer) && self.peer.is(&other.local)
    }

    /// Has it ever been connected, or on the way there?
    #[inline]
    pub fn is_connection(&self) -> bool {
        self.peer.is_known()
    }

    pub fn local(&self) -> Option<SocketAddr> {
        self.local.get()
    }

    /// Our end and the other one, whatever they are.
    pub fn endpoints(&self) -> [Option<Endpoint>; 2] {
        [self.local.endpoint(), self.peer.endpoint()]
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer.get()
    }
}

fn reset_side<S: Default>(side: &Side<S>) {
    side.lock.unlock();
    if side.gate.is_closed() {
        side.gate.open();
    }
    side.slots.store(0, Ordering::Relaxed);
    side.carrier.store(0, Ordering::Relaxed);
    // SAFETY: the record was free and has just been claimed: nobody else uses it.
    unsafe { *side.state.get() = S::default() };
    for counter in [&side.glances, &side.glanced, &side.asked] {
        counter.store(0, Ordering::Relaxed);
    }
}
