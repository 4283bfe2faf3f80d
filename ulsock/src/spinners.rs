//! Who spins on this host: one slot per process of our uid, in a file of the run directory.
//!
//! Only processes of one uid map the file (its owner could truncate it under a stranger). A process
//! that was killed while it spun leaves its count behind; it is found out when the places are full.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::process;
use crate::rundir::RunDir;
use crate::sys::map::Mapping;
use crate::upgrade::names_one_user;

const SLOTS: usize = 512;

#[repr(C)]
struct Slot {
    pid: AtomicU32,
    spinning: AtomicU32,
}

pub struct Spinners {
    table: Option<Mapping>,
    mine: AtomicU32,
    cpus: u32,
    /// When there is no table: only this process counts.
    alone: AtomicU32,
}

impl Spinners {
    pub fn open(dir: &RunDir) -> Spinners {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let spinners = Spinners {
            table: map(dir),
            mine: AtomicU32::new(u32::MAX),
            cpus,
            alone: AtomicU32::new(0),
        };
        spinners.after_fork();
        spinners
    }

    /// Takes a slot for this process.
    pub fn after_fork(&self) {
        let mut slots = self.slots().iter();
        let mine = slots.position(|slot| {
            let pid = slot.pid.load(Ordering::Relaxed);
            let free = pid == 0 || !alive(pid);
            free && slot
                .pid
                .compare_exchange(pid, process::pid(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        self.mine
            .store(mine.map_or(u32::MAX, |n| n as u32), Ordering::Release);
        self.mine().store(0, Ordering::Relaxed);
    }

    fn slots(&self) -> &[Slot] {
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

    /// Is there a place for one more?
    pub fn room(&self) -> bool {
        self.count() < self.cpus || self.count_living() < self.cpus
    }

    fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots()
            .iter()
            .take_while(|slot| slot.pid.load(Ordering::Relaxed) != 0)
    }

    fn count(&self) -> u32 {
        self.used()
            .map(|slot| slot.spinning.load(Ordering::Relaxed))
            .sum::<u32>()
            + self.alone.load(Ordering::Relaxed)
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

fn alive(pid: u32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid as i32) else {
        return false;
    };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

fn map(dir: &RunDir) -> Option<Mapping> {
    let uid = rustix::process::geteuid().as_raw();
    // Strangers' files look like ours then, and their owners could truncate them.
    if !names_one_user(uid) {
        return None;
    }
    dir.map_own(&format!("spin.{uid}"), SLOTS * std::mem::size_of::<Slot>())
}
