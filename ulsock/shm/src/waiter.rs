//! Waiters: who can be asleep, a thread or an epoll set, and the bell that wakes it.
//!
//! A waiter has a number and a word in this process's *waiter page*, which says whether it is
//! asleep; peers map that page read-only and ring only those who are. Waiters are never freed but
//! kept for the next thread, so peers know their bells already.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use std::sync::{Mutex, OnceLock};

use netstack::ring::tripwire::{SLOTS, Tripwire};
use netstack::shared_memory;

use crate::doorbell::{Doorbell, DoorbellKind};
use crate::segment::Segment;
use os::fds::InternalFd;

/// Waiters of one process at a time.
pub const WAITERS: usize = 4096;
/// Other uids that can ring one waiter.
pub const STRANGERS: usize = 6;
/// Bells of one waiter at most.
pub const BELLS: usize = 1 + STRANGERS;
/// Bytes of a waiter page.
pub const PAGE: u64 = WAITERS as u64 * 4;

pub struct Waiter {
    pub number: u32,
    /// For peers of our own uid.
    event: Doorbell,
    /// For strangers, one per uid: who holds an end could shut it down for all others.
    strangers: [OnceLock<(u32, Doorbell)>; STRANGERS],
    asleep: &'static AtomicU32,
    /// Where a thread sleeps for one connection.
    pub own_set: OwnSet,
}

/// A waiter's own epoll set in the kernel, with its bells and the socket of the connection that its thread waits for again
/// and again. Only the waiter's own thread uses it, with its handlers put off.
#[derive(Default)]
pub struct OwnSet {
    pub set: OnceLock<InternalFd>,
    /// Bells that are in it.
    pub bells: AtomicUsize,
    /// For whom the last sleeps were, and how many they are.
    pub name: AtomicU64,
    pub fd: AtomicI32,
    pub sleeps: AtomicU32,
    /// Sockets registered so far.
    pub turn: AtomicU64,
    /// It could not be made, or tells of a socket that is none of ours any more: a number was closed
    /// whose socket another process holds.
    pub spoilt: AtomicBool,
}

/// All waiters of this process.
pub struct Waiters {
    page: Segment,
    page_fd: InternalFd,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    /// All of them, by number.
    made: Vec<&'static Waiter>,
    idle: Vec<&'static Waiter>,
}

impl Waiters {
    pub fn create() -> Option<Waiters> {
        let (page, page_fd) = Segment::create_own(PAGE).ok()?;
        Some(Waiters {
            page,
            page_fd,
            pool: Mutex::default(),
        })
    }

    pub fn page_fd(&self) -> BorrowedFd<'_> {
        self.page_fd.as_fd()
    }

    fn take(&self) -> Option<&'static Waiter> {
        let mut pool = self.pool.lock().ok()?;
        if let Some(waiter) = pool.idle.pop() {
            return Some(waiter);
        }
        let number = pool.made.len() as u32;
        if number as usize >= WAITERS {
            return None;
        }
        let waiter: &'static Waiter = Box::leak(Box::new(Waiter {
            number,
            event: Doorbell::new_event().ok()?,
            strangers: [const { OnceLock::new() }; STRANGERS],
            asleep: self.word(number),
            own_set: OwnSet::default(),
        }));
        pool.made.push(waiter);
        Some(waiter)
    }

    fn by_number(&self, number: u32) -> Option<&'static Waiter> {
        self.pool.lock().ok()?.made.get(number as usize).copied()
    }

    fn word(&self, number: u32) -> &'static AtomicU32 {
        let offset = number as usize % WAITERS * size_of::<AtomicU32>();
        // SAFETY: within the page, and aligned as the page is; the page of a process is never unmapped
        // (`Waiters` lives in a static, and in a forked child it is leaked).
        unsafe { shared_memory::at(self.page.base().add(offset)) }
    }

    fn give_back(&self, waiter: &'static Waiter) {
        if let Ok(mut pool) = self.pool.lock() {
            pool.idle.push(waiter);
        }
    }
}

impl Waiter {
    /// From now on a peer that has something rings. The caller looks once more before it sleeps.
    pub fn lie_down(&self) {
        if self.asleep.swap(1, Ordering::SeqCst) == 0 {
            ASLEEP.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    pub fn get_up(&self) {
        if self.asleep.swap(0, Ordering::Relaxed) != 0 {
            ASLEEP.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Do peers ring it?
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) != 0
    }

    /// The bell that peers of our own uid (`None`), or those of another, shall have.
    pub fn bell(&self, stranger: Option<u32>) -> Option<&Doorbell> {
        let Some(uid) = stranger else {
            return Some(&self.event);
        };
        for place in &self.strangers {
            if place.get().is_none() {
                let _ = place.set((uid, Doorbell::new_pair().ok()?));
            }
            match place.get() {
                Some((owner, bell)) if *owner == uid => return Some(bell),
                _ => {}
            }
        }
        None
    }

    /// The bell for peers of our own uid.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.wait_fd()
    }

    /// Rings our own bell.
    pub fn rouse(&self) {
        let _ = rustix::io::write(self.event_fd(), &1u64.to_ne_bytes());
    }

    /// All bells are quiet afterwards.
    pub fn silence(&self) {
        for bell in self.bells() {
            bell.drain();
        }
    }

    /// For a sleeper that hears each ring once (an edge-triggered set): bells that hold any number of
    /// rings may keep those they have.
    pub fn make_room(&self) {
        let bells = self.bells();
        let limited = bells.filter(|bell| bell.kind() == DoorbellKind::Socket);
        for bell in limited {
            bell.drain();
        }
    }

    /// What to poll while asleep.
    pub fn bells(&self) -> impl Iterator<Item = &Doorbell> {
        let strangers = self
            .strangers
            .iter()
            .map_while(OnceLock::get)
            .map(|(_, bell)| bell);
        std::iter::once(&self.event).chain(strangers)
    }
}

os::process_wide! {
    /// Those of this process, once it has any.
    static OWN: AtomicPtr<Waiters> = AtomicPtr::new(std::ptr::null_mut());
}

pub fn own() -> Option<&'static Waiters> {
    // SAFETY: null, or leaked by `begin`.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// This process has waiters from now on; in a forked child, others than its parent's.
pub fn begin() -> Option<()> {
    let waiters = Box::new(Waiters::create()?);
    OWN.store(Box::into_raw(waiters), Ordering::Release);
    Some(())
}

os::process_wide! {
    /// Waiters of this process that are asleep.
    static ASLEEP: AtomicU32 = AtomicU32::new(0);
}

pub fn somebody_sleeps() -> bool {
    ASLEEP.load(Ordering::Relaxed) > 0
}

/// In a forked child, whose only thread is awake.
pub fn after_fork() {
    ASLEEP.store(0, Ordering::Relaxed);
}

/// Wakes a waiter of this process by the name that it has on a wire, if it sleeps.
pub fn ring_if_asleep(name: u32) {
    let waiter = own().and_then(|waiters| waiters.by_number(name & 0xffff));
    if let Some(waiter) = waiter.filter(|waiter| waiter.asleep.load(Ordering::Relaxed) != 0) {
        waiter.rouse();
    }
}

/// Wakes all of this process who wait at a wire of ours.
pub fn ring_all(wire: &Tripwire) {
    let mut slots = wire.trip_all();
    while slots != 0 {
        ring_own(wire.name(slots.trailing_zeros() as usize));
        slots &= slots - 1;
    }
}

/// Wakes the threads of this process who wait at a wire of ours, and leaves it as it is: epoll sets,
/// which have a board above their number, would have to hang theirs up again.
pub fn ring_threads(wire: &Tripwire) {
    let names = names_at(wire);
    names.filter(|name| name >> 16 == 0).for_each(ring_own);
}

/// Who waits at a wire.
pub fn names_at(wire: &Tripwire) -> impl Iterator<Item = u32> + '_ {
    let armed = (0..SLOTS).filter(|slot| wire.is_armed(*slot));
    armed.map(|slot| wire.name(slot))
}

/// Wakes a waiter of this process by the name that it has on a wire: its number, and above it a
/// board. The name has lain in memory that the peer can write: at worst the wrong one looks.
pub fn ring_own(name: u32) {
    let waiter = own().and_then(|waiters| waiters.by_number(name & 0xffff));
    if let Some(waiter) = waiter {
        waiter.rouse();
    }
}

/// A waiter for an epoll set.
pub fn take() -> Option<&'static Waiter> {
    own()?.take()
}

/// Nobody uses it any more: it serves the next one who waits.
pub fn give_back(waiter: &'static Waiter) {
    if let Some(waiters) = own() {
        waiter.get_up();
        // The next thread begins anew: the connection does not know it yet.
        waiter.own_set.name.store(0, Ordering::Relaxed);
        waiters.give_back(waiter);
    }
}

/// What unit tests need of it, once for all of them.
#[cfg(feature = "testing")]
pub fn begin_for_tests() {
    static BEGIN: std::sync::Once = std::sync::Once::new();
    BEGIN.call_once(|| {
        os::pid::note();
        begin().expect("waiters");
    });
}
