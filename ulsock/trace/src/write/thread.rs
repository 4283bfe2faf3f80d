//! What a thread keeps for itself: its chunk, and how it has spent the call that it is in.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering};

use rendezvous::tracer::mark as word;

use super::{file, note_phase, now};
use crate::call::Call;
use crate::entry::{Entry, Phase};
use crate::layout::{ENTRIES, Head, WORDS};

/// How a call's time was spent, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    pub awake: u64,
    pub in_vain: u64,
    pub asleep: u64,
    pub woke: u8,
}

/// It has no destructor, so that the C library is not asked to remember one.
struct Local {
    chunk: Cell<*const Head>,
    /// Which process the chunk is of.
    epoch: Cell<u64>,
    is_in_call: Cell<bool>,
    /// Where the part of the call begins that is not accounted for yet.
    since: Cell<u64>,
    is_asleep: Cell<bool>,
    spent: Cell<Spent>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            chunk: Cell::new(null()),
            epoch: Cell::new(0),
            is_in_call: Cell::new(false),
            since: Cell::new(0),
            is_asleep: Cell::new(false),
            spent: Cell::new(Spent { awake: 0, in_vain: 0, asleep: 0, woke: 0 }),
        }
    };
}

impl Local {
    #[inline]
    fn head(&self) -> Option<&'static Head> {
        if self.epoch.get() != file::epoch() {
            // The parent's thread goes on in the chunk.
            self.chunk.set(null());
            self.epoch.set(file::epoch());
        }
        // SAFETY: null, or a chunk of the mapping, which is never unmapped.
        unsafe { self.chunk.get().as_ref() }
    }

    #[cold]
    fn next(&self) -> Option<&'static Head> {
        let next = file::chunk()?;
        if let Some(last) = self.head() {
            let since = last.since.load(Ordering::Relaxed);
            next.since.store(since, Ordering::Relaxed);
            next.fd
                .store(last.fd.load(Ordering::Relaxed), Ordering::Relaxed);
            // The last: who sees it sees the others, too.
            next.under_way
                .store(last.under_way.load(Ordering::Relaxed), Ordering::Release);
            last.under_way.store(0, Ordering::Relaxed);
        }
        self.chunk.set(next);
        Some(next)
    }

    /// A place for an entry. Nobody else gets it, not even a handler that interrupts us here.
    fn place(&self) -> Option<&'static [AtomicU64; WORDS]> {
        for _ in 0..2 {
            let head = match self.head() {
                Some(head) => head,
                None => self.next()?,
            };
            let number = match head.used.load(Ordering::Relaxed) as usize {
                full if full >= ENTRIES => ENTRIES,
                _ => head.used.fetch_add(1, Ordering::Relaxed) as usize,
            };
            if number < ENTRIES {
                let entries = std::ptr::from_ref(head).cast::<[AtomicU64; WORDS]>();
                // SAFETY: the head is the first place of its chunk, behind which there are `ENTRIES` more.
                return Some(unsafe { &*entries.add(1 + number) });
            }
            self.next()?;
        }
        None
    }
}

#[inline]
pub fn begin(call: Call, fd: c_int, start: u64) {
    LOCAL.with(|local| {
        local.is_in_call.set(true);
        local.is_asleep.set(false);
        local.since.set(start);
        local.spent.set(Spent::default());
        let Some(head) = local.head().or_else(|| local.next()) else {
            return;
        };
        head.since.store(start, Ordering::Relaxed);
        head.fd.store(fd.cast_unsigned(), Ordering::Relaxed);
        head.under_way.store(call as u32 + 1, Ordering::Release);
    });
}

/// How the call was spent that ends now.
#[inline]
pub fn end(now: u64) -> Spent {
    LOCAL.with(|local| {
        let mut spent = local.spent.take();
        if local.is_asleep.replace(false) {
            spent.asleep += now.saturating_sub(local.since.get());
        }
        local.is_in_call.set(false);
        if let Some(head) = local.head() {
            head.under_way.store(0, Ordering::Relaxed);
        }
        spent
    })
}

#[inline]
pub fn add(entry: &Entry) {
    let words = entry.words();
    LOCAL.with(|local| {
        let Some(place) = local.place() else {
            return file::drop_one(now());
        };
        for (to, word) in place.iter().zip(words).skip(1) {
            to.store(word, Ordering::Relaxed);
        }
        place[0].store(words[0], Ordering::Release);
    });
}

/// libulsock_preload.so says how the thread that calls it spends its call.
pub extern "C" fn mark(what: u32) {
    if what == word::STOP {
        return file::stop();
    }
    if !file::is_on() {
        return;
    }
    let now = now();
    LOCAL.with(|local| {
        if !local.is_in_call.get() {
            return;
        }
        let mut spent = local.spent.get();
        let since = local.since.get();
        let length = now.saturating_sub(since);
        let phase = match what {
            word::AWAKE => {
                spent.awake += length;
                Phase::Awake
            }
            word::IN_VAIN => {
                spent.in_vain += length;
                Phase::InVain
            }
            word::UP if local.is_asleep.replace(false) => {
                spent.asleep += length;
                Phase::Asleep
            }
            word::WOKE => {
                spent.woke = spent.woke.saturating_add(1);
                local.spent.set(spent);
                return note_phase(Phase::Woke, now, now);
            }
            _ => {
                local.is_asleep.set(what == word::ASLEEP);
                local.since.set(now);
                return;
            }
        };
        local.spent.set(spent);
        local.since.set(now);
        note_phase(phase, since.min(now), now);
    });
}
