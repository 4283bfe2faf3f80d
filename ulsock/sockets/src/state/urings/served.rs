//! What is known of an io_uring whose entries are served from rings.

use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Uring;
use crate::runtime::handle::Handle;
use crate::runtime::thread::Thread;
use os::fds::InternalFd;
use os::uring::{Sqe, nop_tells_results, setup};

os::process_wide! {
    static COUNT: AtomicU32 = AtomicU32::new(0);
}

/// An io_uring whose entries are served.
pub struct Served {
    /// The thread that made it, and alone may submit.
    owner: u32,
    /// A call of that thread serves it, or was left by a jump.
    is_busy: bool,
    /// Somebody waits for it by its descriptor, or for an eventfd: it is to be served no more.
    pub is_watched: bool,
    /// Operations that have found nothing yet, in the order in which they came.
    pub kept: Vec<KeptOperation>,
    /// Results that the kernel is to be told: a jump out of a handler must not lose them.
    pub own: Vec<Sqe>,
    /// Calls so far.
    pub calls: u32,
    /// The kernel may have operations to do: only it knows when they are done.
    pub kernel_works: bool,
    /// Rings when the kernel has something to tell.
    pub bell: Option<InternalFd>,
    /// Where the program's structure was at the last call.
    pub place: usize,
    /// What makes sockets in the kernel, and up to where its completions were looked at.
    pub makers: Vec<Maker>,
    pub looked: u32,
}

/// An operation that waits for its connection to become ready.
#[derive(Clone, Copy)]
pub struct KeptOperation {
    pub entry: Sqe,
    pub handle: Handle,
    /// Where the entry stands that the kernel has not taken yet, in the call that has brought it; then null.
    pub place: *mut Sqe,
}

/// An operation by which the kernel accepts or connects.
#[derive(Clone, Copy)]
pub struct Maker {
    pub user_data: u64,
    pub made: Made,
}

#[derive(Clone, Copy)]
pub enum Made {
    /// By this listener, with these flags.
    Accepted {
        listener: RawFd,
        flags: i32,
    },
    Connected {
        fd: RawFd,
    },
}

/// May its entries be served from rings? Completions that come while the owner waits, and at no other time, can be made by us.
pub fn may_be(flags: u32) -> bool {
    const NEEDED: u32 = setup::SINGLE_ISSUER | setup::DEFER_TASKRUN;
    const MORE: u32 =
        setup::CQSIZE | setup::CLAMP | setup::SUBMIT_ALL | setup::COOP_TASKRUN | setup::NO_SQARRAY;
    flags & NEEDED == NEEDED && flags & !(NEEDED | MORE) == 0 && nop_tells_results()
}

impl Served {
    pub fn new(owner: u32) -> Box<Served> {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Box::new(Served {
            owner,
            is_busy: false,
            is_watched: false,
            kept: Vec::new(),
            own: Vec::new(),
            calls: 0,
            kernel_works: false,
            bell: None,
            place: 0,
            makers: Vec::new(),
            looked: 0,
        })
    }
}

/// A call of its owner's serves it.
pub struct Borrowed<'a> {
    uring: &'a Uring,
    served: *mut Served,
}

impl Deref for Borrowed<'_> {
    type Target = Served;

    fn deref(&self) -> &Served {
        // SAFETY: only its owner's thread uses it, and of that one call at a time.
        unsafe { &*self.served }
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut Served {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.served }
    }
}

impl Borrowed<'_> {
    /// It is served no more.
    pub fn end(mut self) {
        self.is_busy = false;
        drop(self.uring.take_served());
        std::mem::forget(self);
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.is_busy = false;
    }
}

/// In a forked child: it does not speak for its parent.
pub fn forget_all() {
    COUNT.store(0, Ordering::Relaxed);
}

/// Does this process have any that is served?
#[inline]
pub fn any_is_served() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

impl Uring {
    /// What it takes to serve its entries, if this thread may.
    pub fn borrow_served(&self) -> Option<Borrowed<'_>> {
        let mut held = self.hold()?;
        let me = held.me;
        let served = held.state().served.as_deref_mut()?;
        let is_nested = || served.is_busy && Thread::known().is_some_and(Thread::in_handler);
        if served.owner != me || is_nested() {
            return None;
        }
        served.is_busy = true;
        let served = std::ptr::from_mut(served);
        let uring = self;
        Some(Borrowed { uring, served })
    }

    /// Somebody waits for its completions by a descriptor. Its owner, if it is another thread, hears of that at its next call.
    pub fn is_watched(&self) {
        if let Some(mut held) = self.hold()
            && let Some(served) = &mut held.state().served
        {
            served.is_watched = true;
        }
    }

    pub(super) fn take_served(&self) -> Option<Box<Served>> {
        let taken = self.hold()?.state().served.take();
        COUNT.fetch_sub(u32::from(taken.is_some()), Ordering::Relaxed);
        taken
    }
}
