//! vfork: its child gets memory of its own, as fork's does, but its parent waits as vfork's: until
//! the child has become another program or ended. The child holds one end of a pipe that closes by
//! itself at both, and the parent sleeps on the other.

use std::os::fd::OwnedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::runtime::process;
use os::fds;
use os::fds::InternalFd;

os::process_wide! {
    /// The child's end, which it must not hand on to children of its own.
    static HELD: AtomicPtr<InternalFd> = AtomicPtr::new(null_mut());
}

/// Between `vfork` and its return.
pub struct VforkWait {
    parents: InternalFd,
    childs: InternalFd,
}

/// Without a descriptor to spare the parent does not wait.
pub fn prepare() -> Option<VforkWait> {
    if !process::is_on() {
        return None;
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let high = |fd: OwnedFd| fds::to_high(fd).ok();
    // Both are moved before either is given up on: what remains is closed by its owner.
    let (parents, childs) = (high(read), high(write));
    Some(VforkWait {
        parents: parents?,
        childs: childs?,
    })
}

/// In the child: its end stays open until it execs or ends.
pub fn child(waiting: Option<VforkWait>) {
    if let Some(waiting) = waiting {
        let held = Box::into_raw(Box::new(waiting.childs));
        HELD.store(held, Ordering::Relaxed);
    }
}

/// In the parent: sleeps until the child's end is closed. Handlers run meanwhile.
pub fn parent(waiting: Option<VforkWait>, child: i32) {
    let Some(VforkWait { parents, childs }) = waiting.filter(|_| child > 0) else {
        return;
    };
    drop(childs);
    let mut byte = [0_u8];
    while rustix::io::read(&parents, &mut byte) == Err(rustix::io::Errno::INTR) {}
}

/// In a child of such a child: its parent must not wait for it.
pub fn after_fork() {
    let held = HELD.swap(null_mut(), Ordering::Relaxed);
    if !held.is_null() {
        // SAFETY: made by `child` in the process that we are a copy of, and taken once.
        drop(unsafe { Box::from_raw(held) });
    }
}
