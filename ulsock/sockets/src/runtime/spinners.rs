//! Who spins on this host: one slot per process of our uid, in a file of the run directory.
//!
//! Only processes of one uid map the file, and what others of that number write there is only a number: at worst
//! nobody spins, or everybody does. A process that was killed while it spun leaves its count behind; it is found out when
//! the places are full.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::thread::sched_getaffinity;

use os::guarded;
use os::guarded::Guarded;
use os::users::names_one_user;
use rendezvous::rundir::{RunDir, SPINNERS};

const SLOTS: usize = 512;

#[repr(C)]
struct SpinnerSlot {
    pid: AtomicU32,
    spinning: AtomicU32,
}

pub struct Spinners {
    table: Option<Guarded>,
    mine: AtomicU32,
    cpus: u32,
    /// When there is no table: only this process counts.
    alone: AtomicU32,
}

impl Spinners {
    pub fn open(dir: &RunDir) -> Spinners {
        let spinners = Spinners {
            table: map(dir),
            mine: AtomicU32::new(u32::MAX),
            cpus: cpus(),
            alone: AtomicU32::new(0),
        };
        spinners.after_fork();
        spinners
    }

    /// Takes a slot for this process, if this thread may.
    pub fn after_fork(&self) {
        let (mine, none) = (&self.mine, u32::MAX);
        mine.store(none, Ordering::Release);
        if guarded::may_be_touched() {
            self.take_slot();
        }
    }

    fn take_slot(&self) {
        let mut slots = self.slots().iter();
        let mine = slots.position(|slot| {
            let pid = slot.pid.load(Ordering::Relaxed);
            let free = pid == 0 || !alive(pid);
            free && slot
                .pid
                .compare_exchange(pid, os::pid::get(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        self.mine
            .store(mine.map_or(u32::MAX, |n| n as u32), Ordering::Release);
        self.mine().store(0, Ordering::Relaxed);
    }

    fn slots(&self) -> &[SpinnerSlot] {
        match &self.table {
            // SAFETY: the mapping has room for SLOTS slots of atomics, valid for any content.
            Some(table) => unsafe { std::slice::from_raw_parts(table.base().cast(), SLOTS) },
            None => &[],
        }
    }

    pub fn mine(&self) -> &AtomicU32 {
        let mine = self.mine.load(Ordering::Relaxed) as usize;
        self.slots()
            .get(mine)
            .map_or(&self.alone, |slot| &slot.spinning)
    }

    /// How many places there are.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Is there a place for one more?
    pub fn room(&self) -> bool {
        self.count() < self.cpus || self.count_living() < self.cpus
    }

    fn used(&self) -> impl Iterator<Item = &SpinnerSlot> {
        self.slots()
            .iter()
            .take_while(|slot| slot.pid.load(Ordering::Relaxed) != 0)
    }

    fn count(&self) -> u32 {
        let counts = self.used().map(|slot| &slot.spinning);
        let all = counts.chain([&self.alone]);
        all.map(|count| count.load(Ordering::Relaxed))
            .fold(0, u32::saturating_add)
    }

    #[cold]
    fn count_living(&self) -> u32 {
        for slot in self
            .used()
            .filter(|slot| slot.spinning.load(Ordering::Relaxed) > 0)
        {
            if !alive(slot.pid.load(Ordering::Relaxed)) {
                slot.spinning.store(0, Ordering::Relaxed);
            }
        }
        self.count()
    }
}

/// The CPUs that all spinners share: those of the host, unless a control group grants less time than theirs. A process
/// that is bound to one of them still leaves the others to its peers.
fn cpus() -> u32 {
    let granted = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let bound_to = sched_getaffinity(None).map_or(granted, |set| set.count());
    if granted < bound_to {
        return granted;
    }
    // SAFETY: a number and no memory.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(granted).max(granted)
}

fn alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

fn map(dir: &RunDir) -> Option<Guarded> {
    let uid = rustix::process::geteuid().as_raw();
    // Strangers' files look like ours then, and their owners could truncate them.
    if !names_one_user(uid) {
        return None;
    }
    dir.map_own(
        &format!("{SPINNERS}.{uid}"),
        SLOTS * std::mem::size_of::<SpinnerSlot>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous::rundir::scratch::Scratch;

    #[test]
    fn any_numbers_are_survived() {
        let dir = Scratch::new();
        let spinners = Spinners {
            table: map(&dir),
            mine: AtomicU32::new(u32::MAX),
            cpus: 2,
            alone: AtomicU32::new(0),
        };
        let words = [0, 1, 7, 1 << 22, i32::MAX as u32, 1 << 31, u32::MAX];
        for (pid, spinning) in words.iter().flat_map(|pid| words.map(|n| (*pid, n))) {
            for slot in spinners.slots() {
                slot.pid.store(pid, Ordering::Relaxed);
                slot.spinning.store(spinning, Ordering::Relaxed);
            }
            spinners.take_slot();
            spinners.mine().fetch_add(1, Ordering::Relaxed);
            spinners.room();
            spinners.mine().fetch_sub(1, Ordering::Relaxed);
        }
        assert!(!alive(0) && !alive(1 << 31) && !alive(u32::MAX), "no pids");
        for slot in spinners.slots() {
            slot.pid.store(1, Ordering::Relaxed);
            slot.spinning.store(1 << 31, Ordering::Relaxed);
        }
        assert!(!spinners.room(), "as many as that are no place");
    }
}
