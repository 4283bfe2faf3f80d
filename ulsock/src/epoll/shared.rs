//! What a process and its forked children know about their epoll sets together: who holds a set, and
//! what the program registered where the kernel's registration is ours. A child that uses an
//! inherited set puts the program's own registrations back, as they are then.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use rustix::process::{test_kill_process, Pid};

use super::MOST;

/// Processes that hold one set, as far as we count.
const PIDS: usize = 14;
/// Converted members of all sets of a family at a time.
const REGISTRATIONS: usize = 64 << 10;

/// The holders of one set.
#[repr(C, align(64))]
pub struct Holders {
    /// Zero: free.
    pids: [AtomicU32; PIDS],
    /// More than there is room for: it counts as shared for ever.
    crowded: AtomicU32,
    /// How often a process has taken the set over from another.
    pub takings: AtomicU32,
}

/// A converted member's registration as the program made it.
#[repr(C)]
pub struct Registration {
    /// Zero: free.
    used: AtomicU32,
    fd: AtomicU32,
    events: AtomicU32,
    disabled: AtomicU32,
    data: AtomicU64,
}

#[repr(C)]
struct Table {
    holders: [Holders; MOST],
    registrations: [Registration; REGISTRATIONS],
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());
/// Where to look for a free registration next.
static HINT: AtomicU32 = AtomicU32::new(0);

fn table() -> Option<&'static Table> {
    let known = TABLE.load(Ordering::Acquire);
    // SAFETY: null or a mapping of this size that is never unmapped; atomics only, zero is valid.
    if let Some(table) = unsafe { known.as_ref() } {
        return Some(table);
    }
    let new = crate::memory::reserve_shared(std::mem::size_of::<Table>())?.cast();
    let (null, order) = (std::ptr::null_mut(), Ordering::AcqRel);
    // If another thread was faster, ours stays for nobody: it costs no memory.
    let _ = TABLE.compare_exchange(null, new, order, Ordering::Acquire);
    // SAFETY: as above.
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
        for place in &self.pids {
            let _ = place.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Does no other living process hold it?
    pub fn is_alone(&self, me: u32) -> bool {
        let others = self.pids.iter().filter(|place| {
            let pid = place.load(Ordering::Relaxed);
            pid != 0 && pid != me
        });
        for place in others {
            let pid = place.load(Ordering::Relaxed);
            if is_alive(pid) {
                return false;
            }
            self.remove(pid);
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
    pub fn claim(
        fd: RawFd,
        events: u32,
        data: u64,
        disabled: bool,
    ) -> Option<&'static Registration> {
        let all = &table()?.registrations;
        let start = HINT.load(Ordering::Relaxed) as usize;
        let index = (0..REGISTRATIONS)
            .map(|n| (start + n) % REGISTRATIONS)
            .find(|index| {
                all[*index]
                    .used
                    .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            })?;
        HINT.store(index as u32 + 1, Ordering::Relaxed);
        let place = &all[index];
        place.fd.store(fd as u32, Ordering::Relaxed);
        place.set(events, data, disabled);
        Some(place)
    }

    pub fn set(&self, events: u32, data: u64, disabled: bool) {
        self.events.store(events, Ordering::Relaxed);
        self.data.store(data, Ordering::Relaxed);
        self.disabled.store(disabled.into(), Ordering::Release);
    }

    pub fn disable(&self) {
        self.disabled.store(1, Ordering::Release);
    }

    /// Events, data and whether its shot is fired; `None` when it is not this number's any more.
    pub fn get(&self, fd: RawFd) -> Option<(u32, u64, bool)> {
        let same =
            self.used.load(Ordering::Acquire) == 1 && self.fd.load(Ordering::Relaxed) == fd as u32;
        let disabled = self.disabled.load(Ordering::Acquire) != 0;
        same.then(|| {
            let events = self.events.load(Ordering::Relaxed);
            (events, self.data.load(Ordering::Relaxed), disabled)
        })
    }

    pub fn free(&self) {
        self.used.store(0, Ordering::Release);
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
    fn a_registration_is_its_numbers_only() {
        let one = Registration::claim(5, 1, 77, false).unwrap();
        assert_eq!(one.get(5), Some((1, 77, false)));
        one.disable();
        assert_eq!(one.get(5), Some((1, 77, true)));
        assert_eq!(one.get(6), None);
        one.free();
        assert_eq!(one.get(5), None);
    }
}
