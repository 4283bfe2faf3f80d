//! How the waits of this program ended: counted where `ulsock top` can read it.
//!
//! A count for each CPU, as far as there is room: no two threads write to the same cache line at the same time, and no
//! locked instruction is needed. A thread that is moved to another CPU meanwhile may cost a count.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use netstack::in_shared_memory;
use rendezvous::tracer::mark;

use crate::runtime::tracer;

const CPUS: usize = 16;

/// Of all CPUs.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Waits {
    cpus: [OnCpu; CPUS],
}

#[repr(C, align(64))]
#[derive(Default)]
struct OnCpu {
    counts: [AtomicU64; KINDS],
}

in_shared_memory!(OnCpu { counts });
in_shared_memory!(Waits { cpus });

/// What has happened.
#[derive(Clone, Copy)]
pub enum Wait {
    /// What it waited for came while it was awake.
    Awake = 0,
    /// Nothing came while it was awake.
    InVain = 1,
    /// It slept.
    Slept = 2,
    /// Somebody who sleeps was woken.
    Woke = 3,
}

const KINDS: usize = 4;

os::process_wide! {
    /// Where this program counts, once it has a connection.
    static WAITS: AtomicPtr<Waits> = AtomicPtr::new(std::ptr::null_mut());
}

/// From now on waits are counted here.
pub fn count_in(waits: &'static Waits) {
    WAITS.store(std::ptr::from_ref(waits).cast_mut(), Ordering::Release);
}

#[inline]
pub fn note(wait: Wait) {
    match wait {
        // The sleep itself is told by the bed.
        Wait::Slept => probe::probe!(ulsock, sleep),
        Wait::Woke => {
            probe::probe!(ulsock, wake);
            tracer::mark(mark::WOKE);
        }
        Wait::Awake => tracer::mark(mark::AWAKE),
        Wait::InVain => tracer::mark(mark::IN_VAIN),
    }
    // SAFETY: null, or there for good (`count_in`).
    let Some(waits) = (unsafe { WAITS.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let count = &waits.cpus[os::spin::cpu() as usize % CPUS].counts[wait as usize];
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

impl Waits {
    pub fn of(&self, wait: Wait) -> u64 {
        let counts = self.cpus.iter().map(|cpu| &cpu.counts[wait as usize]);
        counts.fold(0, |sum: u64, count| {
            sum.wrapping_add(count.load(Ordering::Relaxed))
        })
    }
}
