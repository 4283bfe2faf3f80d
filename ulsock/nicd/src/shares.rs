//! What one user may take of the daemon: places for programs, descriptors, and connections.
//!
//! Nobody gets more than is left for all others. So one user alone can have half of it, two can have a third each, and
//! whoever comes next finds as much as each of them has: no number of programs of one user keeps another's out. Root,
//! and the user that the daemon runs as, can have all that is left. What was taken is given back when its [`Held`] is
//! dropped, whatever the reason.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rustix::process::{Resource, getrlimit};

use rendezvous::pair;

/// Programs, and programs in containers, that are served at a time.
const MOST_PROGRAMS: usize = 4096;
/// UDP ports for engines in programs: so many after our own.
pub const MOST_PORTS: u16 = 256;
/// Connections of all programs, if there is memory for so many.
const MOST_CONNECTIONS: usize = 1 << 17;
/// What a connection takes of it, with its smallest rings.
const CONNECTION_MEMORY: usize = 48 << 10;
/// Descriptors that are nobody's share: the daemon's own, callers that have not proved who they are, and what a program
/// may send in one go before it is counted.
const OWN: usize = 512;

pub struct Shares {
    pub programs: Pool,
    pub guests: Pool,
    pub connections: Pool,
    /// Connections whose other ends programs in containers look for.
    pub unpaired: Pool,
    pub descriptors: Pool,
    /// UDP ports of engines in programs.
    pub ports: Pool,
    /// Of memory that programs have not let go of.
    pub memory: pair::Shares,
}

impl Shares {
    /// Of what this process may have.
    pub fn new() -> Shares {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        Shares {
            programs: Pool::new(MOST_PROGRAMS),
            guests: Pool::new(MOST_PROGRAMS),
            connections: Pool::new((memory() / 4 / CONNECTION_MEMORY).min(MOST_CONNECTIONS)),
            unpaired: Pool::new(MOST_CONNECTIONS),
            descriptors: Pool::new(limit - OWN.min(limit / 2)),
            ports: Pool::new(MOST_PORTS.into()),
            memory: pair::Shares::of_memory(),
        }
    }
}

fn memory() -> usize {
    // SAFETY: takes and returns a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    usize::try_from(pages).unwrap_or(0) * rustix::param::page_size()
}

/// So much of one kind, for all users together.
#[derive(Clone)]
pub struct Pool(Rc<RefCell<Amounts>>);

struct Amounts {
    free: usize,
    by_user: HashMap<u32, usize>,
}

impl Pool {
    fn new(total: usize) -> Pool {
        Pool(Rc::new(RefCell::new(Amounts {
            free: total,
            by_user: HashMap::new(),
        })))
    }

    /// For a user; `None` is more than its share.
    pub fn take(&self, uid: u32, count: usize) -> Option<Held> {
        let mut held = Held {
            pool: self.clone(),
            uid,
            count: 0,
        };
        held.resize(count).then_some(held)
    }
}

impl Amounts {
    fn take(&mut self, uid: u32, count: usize) -> bool {
        let has = self.by_user.get(&uid).copied().unwrap_or(0);
        let most = match is_trusted(uid) {
            true => usize::MAX,
            false => self.free,
        };
        if count > self.free || has + count > most {
            return false;
        }
        self.free -= count;
        self.by_user.insert(uid, has + count);
        true
    }

    fn give(&mut self, uid: u32, count: usize) {
        self.free += count;
        if let Some(has) = self.by_user.get_mut(&uid) {
            *has -= count;
            if *has == 0 {
                self.by_user.remove(&uid);
            }
        }
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// What a user has taken, until it is dropped.
pub struct Held {
    pool: Pool,
    uid: u32,
    count: usize,
}

impl Held {
    /// It has become more, or less. `false`: that is more than the user's share, and it stays as it was.
    pub fn resize(&mut self, count: usize) -> bool {
        let mut amounts = self.pool.0.borrow_mut();
        let fits = match count.checked_sub(self.count) {
            Some(0) => true,
            Some(more) => amounts.take(self.uid, more),
            None => {
                amounts.give(self.uid, self.count - count);
                true
            }
        };
        if fits {
            self.count = count;
        }
        fits
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().give(self.uid, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: [u32; 4] = [1001, 1002, 1003, 1004];

    /// As much as the user gets.
    fn hoard(pool: &Pool, uid: u32) -> Vec<Held> {
        std::iter::from_fn(|| pool.take(uid, 1)).collect()
    }

    #[test]
    fn nobody_has_more_than_is_left_for_others() {
        let pool = Pool::new(1000);
        let first = hoard(&pool, USERS[0]);
        assert_eq!(first.len(), 500);
        let second = hoard(&pool, USERS[1]);
        assert_eq!(second.len(), 250);
        let third = hoard(&pool, USERS[2]);
        assert_eq!(third.len(), 125);
        assert!(pool.take(USERS[3], 1).is_some());
        drop(first);
        assert!(pool.take(USERS[0], 1).is_some() && pool.take(USERS[2], 100).is_some());
        drop((second, third));
        assert_eq!(hoard(&pool, USERS[3]).len(), 500);
        assert!(
            pool.0.borrow().by_user.is_empty(),
            "who has nothing is forgotten"
        );
    }

    /// Many users together cannot take the last one from another, nor can root be kept out before.
    #[test]
    fn root_gets_what_is_left() {
        let pool = Pool::new(100);
        let hoards: Vec<_> = (1001..1004).map(|uid| hoard(&pool, uid)).collect();
        let left = 100 - hoards.iter().map(Vec::len).sum::<usize>();
        assert!(left > 10, "{left}");
        assert_eq!(hoard(&pool, 0).len(), left);
    }

    #[test]
    fn what_grows_and_shrinks_is_counted_and_given_back() {
        let pool = Pool::new(10);
        let mut held = pool.take(USERS[0], 2).unwrap();
        assert!(held.resize(5) && held.resize(3) && held.resize(5) && !held.resize(6));
        assert!(pool.take(USERS[1], 2).is_some() && pool.take(USERS[1], 6).is_none());
        drop(held);
        assert!(pool.take(USERS[1], 5).is_some());
        assert_eq!(pool.0.borrow().free, 10);
    }
}
