//! The engine's place in the process, and its lock.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::now;
use super::state::EngineState;

os::process_wide! {
    pub static SLOT: EngineSlot = EngineSlot {
        taken: AtomicBool::new(false),
        word: AtomicBool::new(false),
        station: UnsafeCell::new(None),
    };
}

pub struct EngineSlot {
    taken: AtomicBool,
    /// Somebody has found it taken, and has something to look at.
    word: AtomicBool,
    station: UnsafeCell<Option<EngineState>>,
}

// SAFETY: the cell is touched only by whoever has taken the seat.
unsafe impl Sync for EngineSlot {}

impl EngineSlot {
    pub fn take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }

    /// By whoever has taken it.
    pub fn act<R>(&self, act: impl FnOnce(&mut Option<EngineState>) -> R) -> R {
        // SAFETY: the seat is taken, by us.
        act(unsafe { &mut *self.station.get() })
    }

    pub fn release(&self) {
        loop {
            self.taken.store(false, Ordering::SeqCst);
            if !self.word.load(Ordering::SeqCst) || !self.take() {
                return;
            }
            if self.word.swap(false, Ordering::SeqCst) {
                self.act(|station| {
                    if let Some(station) = station {
                        station.notice_all();
                        station.poll(now());
                    }
                });
            }
        }
    }

    /// Whether it was free.
    pub fn try_with(&self, act: impl FnOnce(&mut EngineState)) -> bool {
        if !self.take() {
            return false;
        }
        self.act(|station| station.as_mut().map(act));
        self.release();
        true
    }

    /// Whoever has it looks at everything before it is free.
    pub fn leave_word(&self) {
        self.word.store(true, Ordering::SeqCst);
    }

    /// In a forked child, which has one thread: what is there is its parent's.
    pub fn forget(&self) {
        // SAFETY: nobody else is there.
        let station = unsafe { (*self.station.get()).take() };
        if let Some(station) = station {
            station.forget();
        }
        self.word.store(false, Ordering::Relaxed);
        self.taken.store(false, Ordering::Relaxed);
    }
}
