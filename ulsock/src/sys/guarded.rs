//! Mappings of files that others could truncate: the tables of our uid in the run directory, which who has the same
//! number in a container that shares the directory can open.
//!
//! The next touch is a SIGBUS then. It is caught ([`crate::signal::fault`]), and memory of our own, empty, takes the
//! table's place for good ([`replace`]). So only what may be lost at any time is kept in such a table. Nothing is caught
//! in a thread that blocks SIGBUS, nor while the program ignores it: who must not touch a table asks first
//! ([`may_be_touched`]).

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};

use super::map::Mapping;
use crate::signal::{fault, mask};

/// One for each kind of table, and some that tests open beside each other.
const MOST: usize = 64;

struct Place {
    base: AtomicUsize,
    /// Zero until the mapping is there.
    len: AtomicUsize,
}

static PLACES: [Place; MOST] = [const {
    Place {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
    }
}; MOST];

/// A mapping whose loss is survived.
#[derive(Debug)]
pub struct Guarded {
    mapping: Mapping,
    place: usize,
}

impl Guarded {
    /// `None` if there are too many.
    pub fn new(mapping: Mapping) -> Option<Guarded> {
        let base = mapping.base() as usize;
        let place = PLACES.iter().position(|place| {
            let taken = place
                .base
                .compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        })?;
        PLACES[place].len.store(mapping.len(), Ordering::Release);
        Some(Guarded { mapping, place })
    }

    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let place = &PLACES[self.place];
        place.len.store(0, Ordering::Release);
        place.base.store(0, Ordering::Release);
    }
}

/// A SIGBUS at `address`: if that is in a table, there is memory now. Called by the handler, in the thread that has touched it.
pub fn replace(address: usize) -> bool {
    let is_in = |place: &&Place| {
        let (base, len) = (&place.base, &place.len);
        let offset = address.wrapping_sub(base.load(Ordering::Acquire));
        offset < len.load(Ordering::Acquire)
    };
    let Some(place) = PLACES.iter().find(is_in) else {
        return false;
    };
    let base = place.base.load(Ordering::Acquire) as *mut libc::c_void;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // Shared, so that forked children go on seeing what their parent does.
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: exactly the range of a table of ours, which is reached by raw pointers to atomics alone.
    unsafe { mmap_anonymous(base, place.len.load(Ordering::Acquire), prot, flags) }.is_ok()
}

/// Would this thread survive that a table is gone? A system call.
pub fn may_be_touched() -> bool {
    fault::is_bus_error_caught() && mask::current() & mask::bit(libc::SIGBUS) == 0
}
