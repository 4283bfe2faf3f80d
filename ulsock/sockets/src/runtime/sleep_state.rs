//! A thread's bed: what it holds while it sleeps, or while it is inside a kernel call.
//!
//! A sleep may end without its call going on: a signal handler jumps away, or the thread is
//! cancelled. So what it holds is written down here and not on its stack: places on wires, gates, an
//! epoll set. Before a handler runs, the thread gets up; when it ends, its bed is cleared. Each
//! thread has one, for a thread that lies down again has left its last sleep.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use libc::{pollfd, sigset_t, ucontext_t};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::runtime::cancel;
use crate::runtime::engine_flag;
use crate::runtime::handle::Handle;
use crate::runtime::kernel_calls::KernelCalls;
use crate::runtime::signal::{self, Seen};
use crate::runtime::thread::{Critical, Thread};
use crate::runtime::tracer;
use crate::runtime::upcalls;
use crate::runtime::waits::{self, Wait};
use crate::runtime::way::Way;
use os::door;
use os::door::Door;
use os::fds::InternalFd;
use os::fds::duplicate_high;
use os::mask;
use os::poll::raw_ppoll;
use rendezvous::tracer::mark;
use shm::waiter::Waiter;

/// Places that need no memory of their own.
const NEAR: usize = 240;

#[repr(C)]
pub struct SleepState {
    made: AtomicBool,
    /// On the way into the sleep, in it, or just woken: a handler ends it, and shuts its door.
    lying: AtomicBool,
    /// All signals are blocked but in the sleep itself; `mask` is the program's.
    masked: AtomicBool,
    mask: AtomicU64,
    /// How often a handler has put the program's mask back.
    unmasked: AtomicU32,
    waiter: AtomicPtr<Waiter>,
    /// The epoll set that counts it among its sleepers.
    set: AtomicPtr<()>,
    /// The lists of a sleeping `poll`, on its stack.
    lists: AtomicPtr<()>,
    /// A plain set that its thread sleeps in. Apart from the rest: other sleeps come and go within
    /// handlers that interrupt it.
    dozing: AtomicPtr<()>,
    /// The connection that its thread sleeps on in its own epoll set, by name and number; or, with
    /// [`KEPT`], the duplicate that who closed that number has left here.
    watched: AtomicU64,
    watched_at: AtomicI32,
    pub flights: KernelCalls,
    near_count: AtomicUsize,
    far: AtomicPtr<Vec<HeldPlace>>,
    near: UnsafeCell<[MaybeUninit<HeldPlace>; NEAR]>,
}

/// In [`SleepState::watched`]: the rest is a descriptor.
const KEPT: u64 = 1 << 63;

// SAFETY: only the owning thread and handlers that interrupt its sleep touch the cells.
unsafe impl Sync for SleepState {}

/// Something held on one connection.
#[derive(Clone, Copy)]
pub struct HeldPlace {
    pub handle: Handle,
    pub what: What,
}

#[derive(Clone, Copy)]
pub enum What {
    /// A slot of the data wire, of the space wire.
    Data(u8),
    Space(u8),
    /// The kernel socket's gate.
    Gate(Way),
}

impl SleepState {
    fn hold(&self, place: HeldPlace) {
        let count = self.near_count.load(Ordering::Relaxed);
        if count < NEAR {
            // SAFETY: only this thread writes, with its signals blocked or put off.
            unsafe { (*self.near.get())[count].write(place) };
            return self.near_count.store(count + 1, Ordering::Relaxed);
        }
        let far = self.far.load(Ordering::Relaxed);
        if far.is_null() {
            self.far
                .store(Box::into_raw(Box::new(vec![place])), Ordering::Relaxed);
        } else {
            // SAFETY: made by the branch above.
            unsafe { (*far).push(place) };
        }
    }

    /// Lets go of everything; nothing if that has been done.
    fn get_up(&self) {
        if !self.made.swap(false, Ordering::Relaxed) {
            return;
        }
        // SAFETY: null, or a waiter, which is never freed.
        if let Some(waiter) = unsafe { self.take(&self.waiter).as_ref() } {
            waiter.get_up();
        }
        let set = self.take(&self.set);
        if !set.is_null() {
            (upcalls::get().leave_set)(set);
        }
        self.end_watch();
        for index in 0..self.near_count.swap(0, Ordering::Relaxed) {
            // SAFETY: those below the count have been written.
            (upcalls::get().let_go)(unsafe { (*self.near.get())[index].assume_init() });
        }
        let far = self.take(&self.far);
        if !far.is_null() {
            // SAFETY: made by `hold`, and taken out just now.
            let far = unsafe { Box::from_raw(far) };
            far.into_iter().for_each(upcalls::get().let_go);
        }
    }

    fn take<T>(&self, pointer: &AtomicPtr<T>) -> *mut T {
        pointer.swap(std::ptr::null_mut(), Ordering::Relaxed)
    }

    /// Another thread is about to close the number where the thread sleeps, if it does: the socket
    /// stays open until it gets up.
    pub fn keep_open(&self, name: u64, fd: RawFd) {
        if self.watched.load(Ordering::SeqCst) != name
            || self.watched_at.load(Ordering::Relaxed) != fd
        {
            return;
        }
        // SAFETY: the caller is about to close it.
        let Ok(kept) = duplicate_high(unsafe { BorrowedFd::borrow_raw(fd) }) else {
            // SAFETY: null, or a waiter, which is never freed.
            if let Some(waiter) = unsafe { self.waiter.load(Ordering::Relaxed).as_ref() } {
                waiter.rouse();
            }
            return;
        };
        let word = KEPT | kept.as_raw_fd() as u64;
        let order = Ordering::SeqCst;
        if self
            .watched
            .compare_exchange(name, word, order, order)
            .is_ok()
        {
            kept.leave_open();
        }
    }

    fn end_watch(&self) {
        if self.watched.load(Ordering::Relaxed) == 0 {
            return;
        }
        let word = self.watched.swap(0, Ordering::AcqRel);
        if word & KEPT != 0 {
            // SAFETY: `keep_open` has left it to us.
            drop(unsafe { InternalFd::left_open((word & !KEPT) as RawFd) });
        }
    }

    pub fn is_dozing(&self) -> bool {
        !self.dozing.load(Ordering::Relaxed).is_null()
    }

    pub fn doze<Set>(&self, set: &'static Set) {
        let set = std::ptr::from_ref(set).cast_mut().cast();
        self.dozing.store(set, Ordering::Relaxed);
    }

    pub fn end_doze(&self) {
        let set = self.dozing.load(Ordering::Relaxed);
        self.dozing.store(std::ptr::null_mut(), Ordering::Relaxed);
        if !set.is_null() {
            (upcalls::get().end_doze)(set);
        }
    }

    /// A handler is about to run. If the thread lies, it gets up first: its sleep is over.
    pub fn rise(&self) {
        if !self.lying.swap(false, Ordering::Relaxed) {
            return;
        }
        self.get_up();
        // On the stack of the sleeping call, which this handler interrupts.
        let lists = self.take(&self.lists);
        if !lists.is_null() {
            (upcalls::get().clear_lists)(lists);
        }
    }

    /// A handler is about to run at the place in `context`: a sleep that it interrupts is over. One
    /// with a mask has the program's mask again when the handler returns.
    pub fn interrupt(&self, context: &mut ucontext_t) {
        self.rise();
        door::turn_back(context);
        if !self.masked.load(Ordering::Relaxed) {
            return;
        }
        // Of several handlers at once the sleep's own mask is in the context of the last to run.
        if mask::in_context(context) & mask::FULL == mask::FULL {
            mask::put_in_context(context, self.mask.load(Ordering::Relaxed));
            self.masked.store(false, Ordering::Relaxed);
            self.unmasked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The thread ends, perhaps in the middle of a sleep or of a kernel call.
    pub fn clear(&self) {
        self.take(&self.lists);
        self.lying.store(false, Ordering::Relaxed);
        self.get_up();
        self.end_doze();
        self.flights.end_all();
        if self.masked.swap(false, Ordering::Relaxed) {
            mask::replace(self.mask.load(Ordering::Relaxed));
        }
    }

    /// In a forked child: whatever lay in it is the parent's to let go of.
    pub fn forget(&self) {
        self.made.store(false, Ordering::Relaxed);
        self.lying.store(false, Ordering::Relaxed);
        self.masked.store(false, Ordering::Relaxed);
        self.take(&self.waiter);
        self.take(&self.set);
        self.take(&self.dozing);
        self.take(&self.lists);
        self.take(&self.far);
        self.end_watch();
        self.near_count.store(0, Ordering::Relaxed);
        self.flights.forget();
    }
}

/// From now on a peer that has something rings the waiter, and an engine of our own is somebody else's to poll.
pub fn lie_down(waiter: &Waiter) {
    waiter.lie_down();
    engine_flag::take_duty();
}

/// A sleep, from the last look at the signals to getting up. Between the two no handler runs but in
/// the system call, or just before or after it, when everything that is held is in the bed.
pub struct Sleep {
    me: &'static Thread,
    bed: &'static SleepState,
    /// While it is not in its system call a light sleep puts handlers off.
    awake: Cell<Option<Critical>>,
    /// A sleep with a mask has blocked all signals; this is the program's mask.
    before: Option<u64>,
    unmasked: u32,
}

impl Sleep {
    /// `None` when a handler has run since `seen`, or waits to: then do not sleep.
    pub fn prepare(me: &'static Thread, seen: Seen) -> Option<Sleep> {
        let sleep = Sleep::light(me);
        let sleeps = !seen.any_handler(me) && !me.deferred.any();
        if sleeps {
            waits::note(Wait::Slept);
        }
        sleeps.then_some(sleep)
    }

    /// Whoever has run.
    pub fn light(me: &'static Thread) -> Sleep {
        Sleep::new(me, Critical::enter(), None)
    }

    /// For a call with a mask of its own, which holds for the whole of it: all signals are blocked
    /// but in the system call.
    pub fn masked(me: &'static Thread) -> Sleep {
        Sleep::new(me, None, signal::any_installed().then(mask::block_all))
    }

    fn new(me: &'static Thread, awake: Option<Critical>, before: Option<u64>) -> Sleep {
        let bed = me.bed();
        bed.mask.store(before.unwrap_or(0), Ordering::Relaxed);
        let sleep = Sleep {
            me,
            bed,
            awake: Cell::new(awake),
            before,
            unmasked: bed.unmasked.load(Ordering::Relaxed),
        };
        sleep.make_bed();
        sleep
    }

    /// Gets up if need be, and begins anew with nothing held.
    pub fn make_bed(&self) {
        self.bed.get_up();
        self.bed.take(&self.bed.lists);
        self.bed.made.store(true, Ordering::Relaxed);
    }

    /// From now on a peer that has something rings. The caller looks once more before it sleeps.
    pub fn lie_down(&self, waiter: &'static Waiter) {
        let waiter_at = std::ptr::from_ref(waiter).cast_mut();
        self.bed.waiter.store(waiter_at, Ordering::Relaxed);
        lie_down(waiter);
    }

    /// It will be in the thread's own set, if the caller finds that the connection's number is still
    /// open after this.
    pub fn watch(&self, handle: Handle) {
        self.bed.watched_at.store(handle.fd, Ordering::Relaxed);
        self.bed.watched.store(handle.name(), Ordering::SeqCst);
    }

    pub fn hold(&self, handle: Handle, what: What) {
        self.bed.hold(HeldPlace { handle, what });
    }

    /// The set has counted us among its sleepers.
    pub fn in_set<Set>(&self, set: &'static Set) {
        let set = std::ptr::from_ref(set).cast_mut().cast();
        self.bed.set.store(set, Ordering::Relaxed);
    }

    /// Memory that belongs to the sleeping call.
    pub fn with_lists<Lists>(&self, lists: &mut Lists) {
        let lists = std::ptr::from_mut(lists).cast();
        self.bed.lists.store(lists, Ordering::Relaxed);
    }

    /// Sleeps in the kernel's poll, outside of any critical section.
    pub fn poll(
        &self,
        fds: &mut [pollfd],
        left: Option<Timespec>,
        own: *const sigset_t,
    ) -> Result<usize, Errno> {
        let (result, undisturbed) = self.lie(own, |door, mask| raw_ppoll(door, fds, left, mask));
        // Whatever was in the lists is gone with a handler that came just after the system call.
        result.and_then(|n| undisturbed.then_some(n).ok_or(Errno::INTR))
    }

    /// Sleeps by `call`, through the door and with the mask that it is given: the program's own for
    /// this call, or the one from before.
    pub fn by<T>(
        &self,
        own: *const sigset_t,
        call: impl FnOnce(Door<'_>, *const sigset_t) -> T,
    ) -> T {
        self.lie(own, call).0
    }

    /// Also says whether no handler has made the thread get up.
    pub fn lie<T>(
        &self,
        own: *const sigset_t,
        call: impl FnOnce(Door<'_>, *const sigset_t) -> T,
    ) -> (T, bool) {
        let before = mask::set(self.before.unwrap_or(0));
        let mask = match self.before {
            Some(_) if own.is_null() => &raw const before,
            _ => own,
        };
        let bed = self.bed;
        bed.masked.store(self.before.is_some(), Ordering::Relaxed);
        self.me.asleep(true);
        bed.lying.store(true, Ordering::Relaxed);
        let light = self.awake.take();
        let is_light = light.is_some();
        // Handlers that were put off until here run now, and shut the door.
        drop(light);
        debug_assert!(!self.me.in_critical());
        tracer::mark(mark::ASLEEP);
        let result = cancel::asleep(|| call(Door::new(&bed.lying), mask));
        tracer::mark(mark::UP);
        self.awake.set(is_light.then(Critical::enter).flatten());
        let undisturbed = bed.lying.swap(false, Ordering::Relaxed);
        self.me.asleep(false);
        bed.take(&bed.lists);
        (result, undisturbed)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.bed.get_up();
        if self.unmasked == self.bed.unmasked.load(Ordering::Relaxed) {
            self.bed.masked.store(false, Ordering::Relaxed);
            if let Some(before) = self.before {
                mask::replace(before);
            }
        }
    }
}
