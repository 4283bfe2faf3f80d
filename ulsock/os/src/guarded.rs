//! Mappings of files that others could truncate: the tables of our uid in the run directory, which who has the same
//! number in a container that shares the directory can open.
//!
//! The next touch is a SIGBUS then. It is caught ([`super::faults`]), and memory of our own, empty, takes the
//! table's place for good ([`replace`]). So only what may be lost at any time is kept in such a table. Nothing is caught
//! in a thread that blocks SIGBUS, nor while the program ignores it: who must not touch a table asks first
//! ([`may_be_touched`]).

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::map::Mapping;
use super::ranges::Ranges;
use super::{faults, mask};

crate::process_wide! {
    /// One for each kind of table, and some that tests open beside each other.
    static TABLES: Ranges<64> = Ranges::new();
}

/// A mapping whose loss is survived.
#[derive(Debug)]
pub struct Guarded(Mapping);

impl Guarded {
    /// `None` if there are too many.
    pub fn new(mapping: Mapping) -> Option<Guarded> {
        let listed = TABLES.add(mapping.base() as usize, mapping.size());
        listed.then_some(Guarded(mapping))
    }

    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.0.base()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        TABLES.remove(self.base() as usize);
    }
}

/// A SIGBUS at `address`: if that is in a table, there is memory now. Called by the handler, in the thread that has touched it.
pub fn replace(address: usize) -> bool {
    let is_in = |(base, len): &(usize, usize)| address.wrapping_sub(*base) < *len;
    let Some((base, len)) = TABLES.all().find(is_in) else {
        return false;
    };
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // Shared, so that forked children go on seeing what their parent does.
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: exactly the range of a table of ours, which is reached by raw pointers to atomics alone.
    unsafe { mmap_anonymous(base as *mut libc::c_void, len, prot, flags) }.is_ok()
}

/// Would this thread survive that a table is gone? A system call.
pub fn may_be_touched() -> bool {
    faults::is_bus_error_caught() && mask::current() & mask::bit(libc::SIGBUS) == 0
}
