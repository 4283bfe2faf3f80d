//! In which order things came. An epoll set tells its events in the order in which they came, whoever carries them.
//!
//! Who wakes a set leaves a stamp at the wire: when that was. So the set can sort what it finds. The kernel's own
//! events have no stamp; but a process that has spoken by the kernel since it last woke this peer says so in
//! the stamp, and the peer asks the kernel first. A wrong stamp makes another order, nothing worse.

use std::sync::atomic::{AtomicU64, Ordering};

/// In a cache line of its own: all threads that speak by the kernel write it.
#[repr(align(64))]
struct Spoken(AtomicU64);

os::process_wide! {
    /// How often this process has done something on a TCP socket that the kernel tells the other end.
    static SPOKEN: Spoken = Spoken(AtomicU64::new(0));
}

/// Something went by the kernel: bytes, a connect, an end. Some may be lost if two threads count at once; what matters is that
/// it has changed.
#[inline]
pub fn spoke_by_kernel() {
    let spoken = SPOKEN.0.load(Ordering::Relaxed);
    SPOKEN.0.store(spoken.wrapping_add(1), Ordering::Relaxed);
}

/// When something came, by a clock that all CPUs share; its lowest bit says that the sender has spoken by the kernel before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    #[inline]
    pub fn spoke_before(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What an epoll set of a peer's knows of what this process says by the kernel.
#[derive(Default)]
pub struct Heard(AtomicU64);

impl Heard {
    pub const fn new() -> Heard {
        Heard(AtomicU64::new(0))
    }

    /// Has this process spoken by the kernel since this was last asked?
    #[inline]
    pub fn is_behind(&self) -> bool {
        let spoken = SPOKEN.0.load(Ordering::Relaxed);
        let behind = self.0.load(Ordering::Relaxed) != spoken;
        if behind {
            self.0.store(spoken, Ordering::Relaxed);
        }
        behind
    }
}

/// Now. `spoke`: the kernel has something that came before.
#[inline]
pub fn stamp(spoke: bool) -> Stamp {
    Stamp(ticks() & !1 | u64::from(spoke))
}

/// The time stamp counter: some ten nanoseconds cheaper than any clock of the kernel's, and good enough to tell what came first.
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_hears_once_that_the_kernel_has_spoken() {
        let (one, two) = (Heard::new(), Heard::new());
        spoke_by_kernel();
        assert!(one.is_behind() && two.is_behind());
        spoke_by_kernel();
        assert!(one.is_behind());
    }

    #[test]
    fn stamps_grow_and_keep_their_mark() {
        let (first, second) = (stamp(true), stamp(false));
        assert!(first.spoke_before() && !second.spoke_before());
        assert!(first.0 >> 1 <= second.0 >> 1);
    }
}
