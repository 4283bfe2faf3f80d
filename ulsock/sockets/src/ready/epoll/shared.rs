//! What a process and its forked children know about their epoll sets together: who holds a set, and
//! what the program registered where the kernel's registration is ours. A child that uses an
//! inherited set puts the program's own registrations back, as they are then.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use rustix::process::{Pid, test_kill_process};

use super::MOST_SETS;
use os::proc;

/// Processes that hold one set, as far as we count.
const PIDS: usize = 10;
/// Converted members of all sets of a family at a time.
const REGISTRATIONS: usize = 64 << 10;

/// Beside the number of a process: it has become another program, which does not tell us when it closes the set.
const OTHER_PROGRAM: u32 = 1 << 31;
/// Milliseconds between two questions to the kernel about such programs, of one set.
const PAUSE: u64 = 100;

/// The holders of one set.
#[repr(C, align(64))]
pub struct Holders {
    /// Zero: free.
    pids: [AtomicU32; PIDS],
    /// More than there is room for: it counts as shared for ever.
    crowded: AtomicU32,
    /// How often a process has begun to take the set over from another, and how often it was done.
    begun: AtomicU32,
    done: AtomicU32,
    /// How many children have said themselves that they hold it.
    arrived: AtomicU32,
    /// When the kernel was last asked who holds it.
    asked: AtomicU64,
}

/// A converted member's registration as the program made it.
#[repr(C)]
struct SharedRegistration {
    /// The stamp of its use; zero: free.
    used: AtomicU64,
    events: AtomicU32,
    disabled: AtomicU32,
    data: AtomicU64,
    /// A child has made it the kernel's registration.
    put_back: AtomicU32,
}

/// One use of a place. The process that claimed it writes it and frees it; a child that inherited the
/// set only reads it, and says that it has put it back.
#[derive(Clone, Copy)]
pub struct Registration {
    place: &'static SharedRegistration,
    stamp: u64,
}

#[repr(C)]
struct SharedTable {
    holders: [Holders; MOST_SETS],
    registrations: [SharedRegistration; REGISTRATIONS],
    /// Stamps given out.
    stamps: AtomicU64,
}

os::process_wide! {
    static TABLE: AtomicPtr<SharedTable> = AtomicPtr::new(std::ptr::null_mut());
    /// Where to look for a free registration next.
    static HINT: AtomicU32 = AtomicU32::new(0);
}

fn table() -> Option<&'static SharedTable> {
    let known = TABLE.load(Ordering::Acquire);
    // SAFETY: null or a mapping of this size that is never unmapped; atomics only, zero is valid.
    if let Some(table) = unsafe { known.as_ref() } {
        return Some(table);
    }
    let new = os::memory::reserve_shared(std::mem::size_of::<SharedTable>())?.cast();
    let (null, order) = (std::ptr::null_mut(), Ordering::AcqRel);
    // If another thread was faster, ours stays for nobody: it costs no memory.
    let _ = TABLE.compare_exchange(null, new, order, Ordering::Acquire);
    // SAFETY: null, or a mapping of a whole table, never unmapped.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

impl Holders {
    /// A free place, held by `pid` alone.
    pub fn claim(pid: u32) -> Option<&'static Holders> {
        table()?.holders.iter().find(|holders| {
            let first = &holders.pids[0];
            let free = holders
                .pids
                .iter()
                .all(|pid| pid.load(Ordering::Relaxed) == 0)
                && holders.crowded.load(Ordering::Relaxed) == 0;
            free && first
                .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// An exec has failed: the process holds the set as before.
    pub fn come_back(&self, pid: u32) {
        self.rename(pid | OTHER_PROGRAM, pid);
        self.add(pid);
    }

    /// In a forked child, as one of the first things that it does.
    pub fn arrive(&self, pid: u32) {
        self.add(pid);
        self.arrived.fetch_add(1, Ordering::AcqRel);
    }

    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Acquire)
    }

    pub fn add(&self, pid: u32) {
        let is_known = |place: &AtomicU32| place.load(Ordering::Relaxed) == pid;
        let take = |place: &AtomicU32| {
            place
                .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        if !self.pids.iter().any(is_known) && !self.pids.iter().any(take) {
            self.crowded.store(1, Ordering::Release);
        }
    }

    pub fn remove(&self, pid: u32) {
        self.rename(pid, 0);
    }

    fn rename(&self, from: u32, to: u32) {
        for place in &self.pids {
            let _ = place.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The process becomes another program, which has the set too.
    pub fn becomes_other_program(&self, pid: u32) {
        self.rename(pid, pid | OTHER_PROGRAM);
    }

    /// Takes those off the list that have become other programs and, by the kernel, have closed the set since. `epfd`
    /// is a number of ours for it. Now and then only: it takes a look at all their descriptors.
    pub fn forget_those_who_closed(&self, epfd: impl FnOnce() -> Option<RawFd>) {
        let programs = || {
            let places = self.pids.iter().map(|place| place.load(Ordering::Relaxed));
            places.filter(|place| place & OTHER_PROGRAM != 0)
        };
        if programs().next().is_none() {
            return;
        }
        let (now, asked) = (os::clock::coarse_ms(), self.asked.load(Ordering::Relaxed));
        if asked != 0 && now.wrapping_sub(asked) < PAUSE {
            return;
        }
        let Some(epfd) = epfd() else { return };
        self.asked.store(now, Ordering::Relaxed);
        for place in programs() {
            if !proc::holds_set(place & !OTHER_PROGRAM, epfd) {
                self.remove(place);
            }
        }
    }

    /// The one that takes the set over: before it reads the first registration. Whoever changes one
    /// looks here afterwards (`begun`), so one of the two puts the latest into the kernel.
    pub fn begin_taking(&self) {
        self.begun.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// After the last.
    pub fn end_taking(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    pub fn begun(&self) -> u32 {
        fence(Ordering::SeqCst);
        self.begun.load(Ordering::Acquire)
    }

    #[inline]
    pub fn done(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }

    /// Does no other living process hold it?
    pub fn is_alone(&self, me: u32) -> bool {
        let places = self.pids.iter().map(|place| place.load(Ordering::Relaxed));
        for place in places.filter(|place| ![0, me].contains(place)) {
            if is_alive(place & !OTHER_PROGRAM) {
                return false;
            }
            self.remove(place);
        }
        self.crowded.load(Ordering::Acquire) == 0
    }
}

fn is_alive(pid: u32) -> bool {
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return false;
    };
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

impl Registration {
    /// `None` when all are in use.
    pub fn claim(events: u32, data: u64, disabled: bool) -> Option<Registration> {
        let table = table()?;
        let all = &table.registrations;
        let stamp = table.stamps.fetch_add(1, Ordering::Relaxed) + 1;
        let start = HINT.load(Ordering::Relaxed) as usize;
        let index = (0..REGISTRATIONS)
            .map(|n| (start + n) % REGISTRATIONS)
            .find(|index| {
                all[*index]
                    .used
                    .compare_exchange(0, stamp, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            })?;
        HINT.store(index as u32 + 1, Ordering::Relaxed);
        let place = &all[index];
        let registration = Registration { place, stamp };
        place.put_back.store(0, Ordering::Relaxed);
        registration.set(events, data, disabled);
        Some(registration)
    }

    pub fn set(&self, events: u32, data: u64, disabled: bool) {
        self.place.events.store(events, Ordering::Relaxed);
        self.place.data.store(data, Ordering::Relaxed);
        self.place
            .disabled
            .store(disabled.into(), Ordering::Release);
    }

    pub fn disable(&self) {
        self.place.disabled.store(1, Ordering::Release);
    }

    /// Events, data and whether its shot is fired; `None` when it has been freed.
    pub fn get(&self) -> Option<(u32, u64, bool)> {
        let disabled = self.place.disabled.load(Ordering::Acquire) != 0;
        let events = self.place.events.load(Ordering::Relaxed);
        let data = self.place.data.load(Ordering::Acquire);
        let same = self.place.used.load(Ordering::Acquire) == self.stamp;
        same.then_some((events, data, disabled))
    }

    pub fn note_put_back(&self) {
        self.place.put_back.store(1, Ordering::Release);
    }

    /// Has a child made it the kernel's registration? One that has closed the number cannot.
    pub fn is_put_back(&self) -> bool {
        self.place.put_back.load(Ordering::Acquire) != 0
    }

    pub fn free(self) {
        self.place.used.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_counted_while_they_live() {
        let me = std::process::id();
        let holders = Holders::claim(me).unwrap();
        assert!(holders.is_alone(me));
        // Process 1 lives; the number of the other is beyond what the kernel gives.
        holders.add(1);
        holders.add(1);
        assert!(!holders.is_alone(me));
        holders.remove(1);
        holders.add(0x7fff_fff0);
        assert!(holders.is_alone(me));
        holders.remove(me);
    }

    #[test]
    fn a_registration_ends_with_its_use() {
        let one = Registration::claim(1, 77, false).unwrap();
        assert_eq!(one.get(), Some((1, 77, false)));
        one.disable();
        assert_eq!(one.get(), Some((1, 77, true)));
        assert!(!one.is_put_back());
        one.note_put_back();
        assert!(one.is_put_back());
        one.free();
        assert_eq!(one.get(), None);
        one.place.used.store(one.stamp + 1, Ordering::Relaxed);
        assert_eq!(one.get(), None, "another's");
        one.free();
    }
}
