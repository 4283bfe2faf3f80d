//! What a writer tells the owner of a region: which wires it has touched. And whether the owner has to be woken for it.

use super::{GROUPS, PER_GROUP, bits};
use crate::ring::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Of one writer, which may write anything here: the owner takes no more from it than numbers of wires.
#[repr(C)]
pub struct Mail {
    /// Groups with a wire that was touched.
    groups: AtomicU64,
    wires: [AtomicU32; GROUPS],
}

/// The owner's word that it sleeps, or may. Writers only read it.
#[repr(C)]
pub struct Sleep {
    asleep: AtomicU32,
}

#[cfg(not(loom))]
crate::in_shared_memory!(Mail { groups, wires });
#[cfg(not(loom))]
crate::in_shared_memory!(Sleep { asleep });

/// Of the bits of a group.
const WIRES: u32 = (1 << PER_GROUP) - 1;

impl Mail {
    pub fn new() -> Mail {
        Mail {
            groups: AtomicU64::new(0),
            wires: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Writer: notes these wires of a group. `true` if the mail was empty: then the owner may be asleep.
    pub fn note(&self, group: usize, wires: u32) -> bool {
        self.wires[group].fetch_or(wires, Ordering::Release);
        self.groups.fetch_or(1 << group, Ordering::AcqRel) == 0
    }

    /// Owner: takes what was noted.
    #[inline]
    pub fn take(&self, tell: impl FnMut(usize)) {
        if self.groups.load(Ordering::Relaxed) != 0 {
            let groups = self.groups.swap(0, Ordering::AcqRel);
            self.take_groups(groups, tell);
        }
    }

    /// The same when the writer is gone: it may have been killed before it had noted the group.
    pub fn take_all(&self, tell: impl FnMut(usize)) {
        self.take_groups(u64::MAX, tell);
    }

    /// Owner: this wire is as if it had not been noted. What was written before that is seen now.
    pub fn forget(&self, wire: usize) {
        let (wires, bit) = (&self.wires[wire / PER_GROUP], 1 << (wire % PER_GROUP));
        if wires.load(Ordering::Relaxed) & bit != 0 {
            wires.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    fn take_groups(&self, groups: u64, mut tell: impl FnMut(usize)) {
        for group in bits(groups).take_while(|group| *group < GROUPS) {
            let wires = self.wires[group].swap(0, Ordering::AcqRel) & WIRES;
            for wire in bits(wires.into()) {
                tell(group * PER_GROUP + wire);
            }
        }
    }
}

impl Default for Mail {
    fn default() -> Mail {
        Mail::new()
    }
}

impl Sleep {
    pub fn new() -> Sleep {
        Sleep {
            asleep: AtomicU32::new(0),
        }
    }

    /// Owner: looks at all mails once more after this, and then sleeps.
    pub fn begin(&self) {
        self.asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub fn end(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Writer, after it has put something into an empty mail: is the owner to be woken?
    pub fn wants_bell(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) != 0
    }
}

impl Default for Sleep {
    fn default() -> Sleep {
        Sleep::new()
    }
}
