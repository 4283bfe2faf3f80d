//! Taking a side lock: spinning briefly, then yielding, and finding out about dead owners.

use std::cell::UnsafeCell;

use netstack::ring::SideLock;
use rustix::process::{Pid, test_kill_process};

use crate::runtime::thread::Thread;
use crate::state::record::Side;
use os::backoff::Backoff;

/// A side lock that is held, and the state it guards.
pub struct SideGuard<'a, S> {
    lock: &'a SideLock,
    state: &'a UnsafeCell<S>,
}

impl<'a, S> SideGuard<'a, S> {
    /// Also says whether the lock was taken over from a dead holder. `None`: this very thread holds
    /// it (a signal handler that could not be put off).
    #[inline]
    pub fn take(side: &'a Side<S>, me: &Thread) -> Option<(SideGuard<'a, S>, bool)> {
        let held = SideGuard {
            lock: &side.lock,
            state: &side.state,
        };
        match side.lock.try_lock(me.id()) {
            Ok(()) => Some((held, false)),
            Err(owner) => wait_for(&side.lock, owner, me.id()).map(|dead| (held, dead)),
        }
    }

    /// Without waiting. `alone`: no other thread or process can want it now.
    #[inline(always)]
    pub fn try_take(side: &'a Side<S>, me: &Thread, alone: bool) -> Option<SideGuard<'a, S>> {
        match alone {
            true => side.lock.try_lock_alone(me.id()),
            false => side.lock.try_lock(me.id()),
        }
        .ok()?;
        Some(SideGuard {
            lock: &side.lock,
            state: &side.state,
        })
    }

    #[inline]
    pub fn state(&mut self) -> &mut S {
        // SAFETY: the lock is held, and this guard is the only way to the state.
        unsafe { &mut *self.state.get() }
    }
}

impl<S> Drop for SideGuard<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

#[cold]
fn wait_for(lock: &SideLock, mut owner: u32, me: u32) -> Option<bool> {
    let mut backoff = Backoff::default();
    for round in 0u32.. {
        if owner == me {
            return None;
        }
        match round {
            0..100 => std::hint::spin_loop(),
            100..200 => backoff.pause(),
            // Only a stopped or dead holder takes this long.
            _ => {
                if is_dead(owner) && lock.take_over(owner, me) {
                    return Some(true);
                }
                backoff.pause();
            }
        }
        match lock.try_lock(me) {
            Ok(()) => return Some(false),
            Err(now) => owner = now,
        }
    }
    None
}

fn is_dead(tid: u32) -> bool {
    Pid::from_raw(tid as i32)
        .is_some_and(|tid| test_kill_process(tid) == Err(rustix::io::Errno::SRCH))
}
