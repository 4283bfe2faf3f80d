//! How much the processes of one user may make us hold: descriptors of theirs, and memory that they have not let go of.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use os::fds;

/// Memory that we have let go of and a user's processes have not, in small rings of 16 KiB: 64 MiB.
const MOST_OWED: u32 = 4096;

/// Users whose shares are remembered before we look for those that have none any more.
const MANY: usize = 64;

/// One user's. All pairs with its processes have the same.
#[derive(Debug)]
pub struct Share {
    most: u32,
    held: AtomicU32,
    owed: AtomicU32,
}

impl Share {
    /// Of a user that may do to us what it likes, or of a daemon.
    pub fn trusted() -> Share {
        Share::new(u32::MAX)
    }

    /// Of anybody else: half of the numbers that we keep for ourselves, so that nobody can have them all.
    pub fn of_other_user() -> Share {
        Share::new(fds::own_range() / 2)
    }

    pub(super) fn new(most: u32) -> Share {
        Share {
            most,
            held: AtomicU32::new(0),
            owed: AtomicU32::new(0),
        }
    }

    /// May one descriptor more be held?
    pub fn take(&self) -> bool {
        let more = |held: u32| (held < self.most).then_some(held.saturating_add(1));
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// So many are held no longer.
    pub fn give(&self, count: u32) {
        self.held.fetch_sub(count, Ordering::Relaxed);
    }

    pub fn owes(&self, rings: u32) {
        self.owed.fetch_add(rings, Ordering::Relaxed);
    }

    pub fn has_paid(&self, rings: u32) {
        self.owed.fetch_sub(rings, Ordering::Relaxed);
    }

    /// Gets no more memory from us before it lets go of some.
    pub fn owes_too_much(&self) -> bool {
        self.owed.load(Ordering::Relaxed) >= MOST_OWED
    }
}

/// The shares of all users that we have to do with.
pub struct Shares(HashMap<u32, Weak<Share>>, fn() -> Share);

impl Default for Shares {
    fn default() -> Shares {
        Shares(HashMap::new(), Share::of_other_user)
    }
}

impl Shares {
    /// For a daemon, which counts descriptors by itself.
    pub fn of_memory() -> Shares {
        Shares(HashMap::new(), Share::trusted)
    }

    pub fn of(&mut self, uid: u32) -> Arc<Share> {
        if let Some(share) = self.0.get(&uid).and_then(Weak::upgrade) {
            return share;
        }
        if self.0.len() >= MANY {
            self.0.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(match uid == rustix::process::geteuid().as_raw() {
            true => Share::trusted(),
            false => self.1(),
        });
        self.0.insert(uid, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_ends() {
        let share = Share::new(2);
        assert_eq!(
            [share.take(), share.take(), share.take()],
            [true, true, false]
        );
        share.give(1);
        assert_eq!([share.take(), share.take()], [true, false]);
    }

    #[test]
    fn debts_are_counted_in_rings() {
        let share = Share::trusted();
        share.owes(MOST_OWED - 1);
        assert!(!share.owes_too_much());
        share.owes(1);
        assert!(share.owes_too_much());
        share.has_paid(1);
        assert!(!share.owes_too_much());
    }

    /// A user namespace has as many users as it likes.
    #[test]
    fn users_without_a_pair_are_forgotten() {
        let mut shares = Shares::default();
        let kept = shares.of(1_000_000);
        for uid in 0..10_000 {
            drop(shares.of(uid));
            assert!(shares.0.len() <= MANY + 1);
        }
        assert!(Arc::ptr_eq(&kept, &shares.of(1_000_000)));
    }
}
