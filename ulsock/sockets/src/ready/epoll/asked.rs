//! Who looks at a set may find that a member is asked whether it shall go to the link to another host. To agree hangs up
//! its wires in all sets that it is in; but who holds a set must not wait for another, whose holder may wait for this
//! one. So the question waits until the set is let go.

use std::cell::UnsafeCell;

use super::set::{Set, SetGuard};
use crate::conn::{Conn, Handle};
use crate::runtime::thread::Thread;

/// Members with such a question. Touched by the thread that holds the set's lock.
#[derive(Default)]
pub struct PutOff(UnsafeCell<Vec<Handle>>);

/// If this thread holds a set: whoever looked there answers when it has let go of it. `false`: it can be done at once.
#[cold]
pub fn put_off(handle: Handle) -> bool {
    let Some(me) = Thread::me() else { return false };
    let Some(set) = super::in_use().find(|set| set.is_held_by(me)) else {
        return false;
    };
    // SAFETY: this thread holds the lock, and no reference lasts longer than a call here.
    unsafe { &mut *set.asked.0.get() }.push(handle);
    true
}

impl SetGuard<'_> {
    /// Those that have been put off, to be answered after this guard is dropped.
    #[inline]
    pub(super) fn take_asked(&mut self) -> Vec<Handle> {
        // SAFETY: this guard holds the lock, and no reference lasts longer than a call here.
        std::mem::take(unsafe { &mut *self.set().asked.0.get() })
    }
}

/// With no set held.
#[inline]
pub(super) fn answer(asked: &[Handle]) {
    for handle in asked {
        if let Some(conn) = Conn::enter(*handle) {
            conn.attend();
        }
    }
}

impl Set {
    pub(super) fn is_held_by(&self, me: &Thread) -> bool {
        self.lock.is_held_by(me.id())
    }
}
