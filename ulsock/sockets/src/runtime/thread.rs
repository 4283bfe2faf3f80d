//! What we know about each thread: its id, whether it is inside our code, its signals, its bell.
//!
//! Blocks live in one mapping that is never freed, so a signal handler and the reclaimer may look
//! at them at any time; so do the beds, in a mapping beside it. Nothing here allocates, locks or
//! makes a system call on the usual path.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering, compiler_fence,
};

use crate::runtime::cancel;
use crate::runtime::read_batching::ReadBatching;
use crate::runtime::signal::Deferred;
use crate::runtime::sleep_state::SleepState;
use os::rhythm::Rhythm;
use os::spin::History;
use os::word;
use shm::waiter::{self, Waiter};

/// Threads alive at once that we can serve; the others' connections go to the kernel.
const MOST_THREADS: usize = 32 << 10;
/// A handler's calls are made within so many bytes of stack.
const DEEPEST_HANDLER: usize = 1 << 20;

#[derive(Default)]
#[repr(align(64))]
pub struct Thread {
    /// Zero: the block is free.
    tid: AtomicU32,
    /// As libc names it.
    name: AtomicUsize,
    /// Depth of critical sections; the thread itself writes, the reclaimer reads.
    critical: AtomicU32,
    /// Handlers that ran here: all of them, and those installed without SA_RESTART.
    pub handlers: AtomicU32,
    pub interruptions: AtomicU32,
    /// Inside a sleep, or left it by a jump.
    asleep: AtomicBool,
    /// The program wants to be cancelled at any instruction: not inside ours.
    pub cancel_anywhere: AtomicBool,
    /// What to put back when the critical section ends, plus one.
    pub cancel_state: AtomicI32,
    waiter: AtomicPtr<Waiter>,
    pub spin: History,
    pub rhythm: Rhythm,
    pub gather: ReadBatching,
    /// The record of the latest quick send.
    sent_on: AtomicUsize,
    /// Where on its stack the innermost handler began that is running now, or was left by a jump.
    pub handler_at: AtomicUsize,
    pub deferred: Deferred,
}

/// The threads whose own epoll sets have had the socket, by their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchers {
    None,
    One(usize),
    Several,
}

os::process_wide! {
    static BLOCKS: AtomicPtr<Thread> = AtomicPtr::new(std::ptr::null_mut());
    static BEDS: AtomicPtr<SleepState> = AtomicPtr::new(std::ptr::null_mut());
    static HIGHEST: AtomicUsize = AtomicUsize::new(0);
    static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
    /// glibc's own word (2.32 and later): not zero while the process has one thread only. Elsewhere, and
    /// before it is known, ours.
    static SINGLE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::from_ref(NOT_SINGLE).cast_mut());
}
/// No process has one thread as long as nobody says so.
const NOT_SINGLE: &u8 = &0;

/// Load time: the mappings for all blocks and beds (untouched pages cost nothing).
pub fn init() {
    let blocks = os::memory::reserve_pointers(MOST_THREADS * size_of::<Thread>());
    let beds = os::memory::reserve_pointers(MOST_THREADS * size_of::<SleepState>());
    let (Some(base), Some(beds)) = (blocks, beds) else {
        return;
    };
    // SAFETY: the name is a C string.
    let single = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !single.is_null() {
        SINGLE.store(single.cast(), Ordering::Relaxed);
    }
    BEDS.store(beds.cast(), Ordering::Release);
    let mut key = 0;
    // SAFETY: plain libc call with a valid out pointer.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
        BLOCKS.store(base.cast(), Ordering::Release);
    }
}

/// The calling thread's block, or null.
#[inline]
fn known() -> *const Thread {
    word::get() as *const Thread
}

fn blocks() -> &'static [Thread] {
    let base = BLOCKS.load(Ordering::Acquire);
    if base.is_null() {
        return &[];
    }
    let used = HIGHEST.load(Ordering::Acquire).min(MOST_THREADS);
    // SAFETY: the mapping holds MOST zeroed blocks, all zero is a valid `Thread`, and it is never
    // unmapped.
    unsafe { std::slice::from_raw_parts(base, used) }
}

impl Thread {
    /// The calling thread's block.
    #[inline]
    pub fn me() -> Option<&'static Thread> {
        Thread::known().or_else(Thread::begin)
    }

    /// As [`Thread::me`], but a thread that never came here has no block: for signal handlers.
    #[inline]
    pub fn known() -> Option<&'static Thread> {
        // SAFETY: null or a pointer into the block mapping, which is never unmapped.
        unsafe { known().as_ref() }
    }

    #[cold]
    fn begin() -> Option<&'static Thread> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let block = Thread::claim(tid)?;
        // SAFETY: no arguments.
        let name = unsafe { libc::pthread_self() } as usize;
        block.name.store(name, Ordering::Relaxed);
        word::set(std::ptr::from_ref(block) as usize);
        let key = KEY.load(Ordering::Relaxed);
        // SAFETY: the key was created at load time.
        unsafe { libc::pthread_setspecific(key, (block as *const Thread).cast()) };
        Some(block)
    }

    fn claim(tid: u32) -> Option<&'static Thread> {
        let take = |block: &Thread| {
            block
                .tid
                .compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        if let Some(free) = blocks().iter().find(|block| take(block)) {
            return Some(free);
        }
        if BLOCKS.load(Ordering::Acquire).is_null() {
            return None;
        }
        loop {
            let next = HIGHEST.fetch_add(1, Ordering::AcqRel);
            if next >= MOST_THREADS {
                HIGHEST.store(MOST_THREADS, Ordering::Release);
                return None;
            }
            if let Some(block) = blocks().get(next).filter(|block| take(block)) {
                return Some(block);
            }
        }
    }

    #[inline]
    pub fn id(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Its place among all blocks.
    pub fn index(&self) -> usize {
        let first = BLOCKS.load(Ordering::Relaxed).cast_const();
        // SAFETY: a block lies in the array of blocks.
        unsafe { std::ptr::from_ref(self).offset_from(first) as usize }
    }

    /// Where this thread sleeps.
    pub fn bed(&self) -> &'static SleepState {
        // SAFETY: blocks and beds are two arrays of equal length, never unmapped; all zero is a
        // valid `SleepState`.
        unsafe { &*BEDS.load(Ordering::Relaxed).add(self.index()) }
    }

    /// Is this call made by a signal handler? It may have interrupted the allocator, or a lock.
    pub fn in_handler(&self) -> bool {
        let (began, here) = (self.handler_at.load(Ordering::Relaxed), 0u8);
        // What a jump has left behind may still look so: then an upgrade waits a little.
        (1..DEEPEST_HANDLER).contains(&began.wrapping_sub(&raw const here as usize))
    }

    /// Its waiter.
    pub fn waiter(&self) -> Option<&'static Waiter> {
        // SAFETY: null or a waiter that was leaked.
        if let Some(waiter) = unsafe { self.waiter.load(Ordering::Acquire).as_ref() } {
            return Some(waiter);
        }
        // Making one takes memory, which a signal handler must not.
        let waiter = if self.in_handler() {
            None
        } else {
            waiter::take()
        }?;
        self.waiter
            .store(std::ptr::from_ref(waiter).cast_mut(), Ordering::Release);
        Some(waiter)
    }

    #[inline(always)]
    fn enter(&self) {
        let depth = self.critical.load(Ordering::Relaxed);
        self.critical.store(depth + 1, Ordering::Relaxed);
        // The membarrier of the reclaimer, and of who cancels us, is the other half of this fence.
        compiler_fence(Ordering::SeqCst);
        if depth == 0 {
            cancel::hold_off(self);
        }
    }

    #[inline(always)]
    fn leave(&self) {
        compiler_fence(Ordering::SeqCst);
        let depth = self.critical.load(Ordering::Relaxed) - 1;
        self.critical.store(depth, Ordering::Release);
        if depth == 0 {
            cancel::allow(self);
            if self.deferred.any() {
                self.deliver();
            }
        }
    }

    #[cold]
    fn deliver(&self) {
        self.bed().rise();
        self.deferred.deliver();
    }

    /// Was the latest send on this connection too? Notes that it now is.
    #[inline]
    pub fn is_same_sender<T>(&self, record: &T) -> bool {
        let here = std::ptr::from_ref(record) as usize;
        let same = self.sent_on.load(Ordering::Relaxed) == here;
        if !same {
            self.sent_on.store(here, Ordering::Relaxed);
        }
        same
    }

    /// Around a sleep: a handler that interrupts it finds it so.
    pub fn asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    pub fn in_critical(&self) -> bool {
        self.critical.load(Ordering::Relaxed) > 0
    }
}

/// While it lives, handlers on this thread wait, and nothing we look at is unmapped.
pub struct Critical(pub &'static Thread);

impl Critical {
    #[inline]
    pub fn enter() -> Option<Critical> {
        Some(Critical::of(Thread::me()?))
    }

    /// `me` is the calling thread.
    #[inline(always)]
    pub fn of(me: &'static Thread) -> Critical {
        me.enter();
        Critical(me)
    }

    /// As dropping it, inlined.
    #[inline(always)]
    pub fn end(self) {
        self.0.leave();
        std::mem::forget(self);
    }
}

impl Drop for Critical {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Is every other thread outside its critical section? Then what was unlinked before can be
/// unmapped now. It does not wait: the caller asks again later.
pub fn quiet() -> bool {
    os::memory::barrier_in_all_threads();
    let me = known();
    let mut others = blocks().iter().filter(|block| !std::ptr::eq(*block, me));
    others.all(|block| block.critical.load(Ordering::Acquire) == 0)
}

/// The beds of these threads, or of those that have their blocks now.
pub fn beds(of: Watchers) -> impl Iterator<Item = &'static SleepState> {
    let all = blocks();
    let chosen = match of {
        Watchers::None => &[],
        Watchers::One(index) => all.get(index..=index).unwrap_or(&[]),
        Watchers::Several => all,
    };
    chosen.iter().map(Thread::bed)
}

/// Is this other thread in a critical section?
pub fn is_inside(thread: libc::pthread_t) -> bool {
    let me = known();
    let named = |block: &&Thread| block.name.load(Ordering::Relaxed) == thread as usize;
    let mut others = blocks().iter().filter(|block| !std::ptr::eq(*block, me));
    others.any(|block| named(&block) && block.critical.load(Ordering::Acquire) > 0)
}

/// Is the calling thread the only one of the process, as far as libc knows?
#[inline]
pub fn is_single() -> bool {
    let single = SINGLE.load(Ordering::Relaxed);
    // SAFETY: a char of libc's, which stays loaded, or ours.
    unsafe { single.read_volatile() != 0 }
}

/// Adds to a counter that only this process's threads change: without a locked instruction while there
/// is only one. (A handler that comes between load and store puts back what it changes.)
#[inline]
pub fn add(counter: &AtomicU32, n: u32) -> u32 {
    if is_single() {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(n), Ordering::Relaxed);
        return before;
    }
    counter.fetch_add(n, Ordering::SeqCst)
}

/// Puts another value into a word that only this process's threads change, likewise.
#[inline]
pub fn replace(word: &AtomicU32, new: u32) -> u32 {
    if is_single() {
        let before = word.load(Ordering::Relaxed);
        word.store(new, Ordering::Relaxed);
        return before;
    }
    word.swap(new, Ordering::SeqCst)
}

/// Is the calling thread the only one that has ever come here, of those that live?
pub fn is_alone() -> bool {
    blocks().iter().filter(|block| block.id() != 0).count() == 1
}

/// In a forked child: only the calling thread exists.
pub fn after_fork() {
    let me = known();
    for block in blocks() {
        block.waiter.store(std::ptr::null_mut(), Ordering::Relaxed);
        block.bed().forget();
        if std::ptr::eq(block, me) {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            block.tid.store(tid, Ordering::Relaxed);
        } else {
            block.critical.store(0, Ordering::Relaxed);
            block.tid.store(0, Ordering::Release);
        }
    }
}

/// The thread ends: its bell and its block serve others.
extern "C" fn ended(block: *mut libc::c_void) {
    // SAFETY: the value set for this key is always a block of the mapping.
    let block = unsafe { &*block.cast::<Thread>() };
    // A cancelled thread left its sleep, or its kernel call, without getting up.
    block.bed().clear();
    word::set(0);
    let waiter = block.waiter.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a waiter, which is never freed.
    if let Some(waiter) = unsafe { waiter.as_ref() } {
        waiter::give_back(waiter);
    }
    block.critical.store(0, Ordering::Relaxed);
    block.asleep(false);
    block.cancel_anywhere.store(false, Ordering::Relaxed);
    block.cancel_state.store(0, Ordering::Relaxed);
    block.handler_at.store(0, Ordering::Relaxed);
    block.tid.store(0, Ordering::Release);
}

/// In a unit test: the calling thread acts as this runtime no more, and ends as another one.
#[cfg(test)]
pub fn end_in_runtime() {
    if let Some(me) = Thread::known() {
        // SAFETY: a key of this runtime's own.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), std::ptr::null()) };
        ended(std::ptr::from_ref(me).cast_mut().cast());
    }
}
