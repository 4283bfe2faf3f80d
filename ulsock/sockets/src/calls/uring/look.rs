//! The look at the entries that the kernel is about to take: copied, in their order, and those that concern us are acted on
//! before anybody may take them.

use std::time::Duration;

use os::backoff::Backoff;
use os::uring::{self, Sqe, SubmissionQueue, sqe};

use super::act::Found;
use super::entry::{self, Beginning};
use crate::runtime::deadline::Deadline;
use crate::runtime::thread;
use crate::state::urings::{Grant, Uring, UringState};

/// Entries that are acted on at a time.
const BATCH: usize = 16;
/// A thread that acts on entries may have been left by a jump out of a handler: then somebody else looks.
const ACTING: Duration = Duration::from_secs(5);

/// Entries that concern us, in their order.
struct Batch {
    found: [Option<Found>; BATCH],
    len: usize,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            found: [None; BATCH],
            len: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Looks at one entry, which must be mapped.
    #[inline]
    fn look(&mut self, state: &mut UringState, place: *mut Sqe) {
        // SAFETY: an entry of the queue, whose owner holds the lock or is calling with it.
        let beginning = Beginning(unsafe { uring::copy_beginning(place) });
        let flags = beginning.flags();
        state.drains |= flags & sqe::IO_DRAIN != 0;
        if !beginning.is_enough() {
            self.look_closer(state, place);
        }
        state.linked = flags & sqe::LINKS_NEXT != 0;
    }

    #[cold]
    fn look_closer(&mut self, state: &UringState, place: *mut Sqe) {
        // SAFETY: as in `look`.
        let entry = unsafe { uring::copy(place) };
        if entry::concerns_us(&entry) {
            self.found[self.len] = Some(Found {
                place,
                entry,
                later: state.linked || state.drains || state.polls,
            });
            self.len += 1;
        }
    }

    fn act(&self) {
        self.found.iter().flatten().for_each(Found::act);
    }
}

/// Looks at all that stands in the queue, and says what may be taken now of `wanted` entries. `None`: it cannot be looked
/// at.
pub fn look(uring: &Uring, wanted: u32) -> Option<Grant> {
    let mut backoff = Backoff::default();
    let mut patience = None;
    let mut has_begun = false;
    loop {
        let mut held = uring.hold()?;
        let me = held.me;
        let state = held.state();
        let queue = state.queue()?;
        if state.acting != 0 && state.acting != me {
            let patience = patience.get_or_insert_with(|| Deadline::after(ACTING));
            if !patience.passed() {
                drop(held);
                backoff.pause();
                continue;
            }
        }
        if !has_begun {
            state.begin(&queue);
            has_begun = true;
        }
        let (batch, end) = scan(state, &queue);
        if batch.len == 0 {
            state.looked = end;
            return Some(state.grant(wanted, thread::is_single()));
        }
        // What follows takes locks, and perhaps time: until it is done nobody is granted these entries.
        let linked = state.linked;
        state.acting = me;
        drop(held);
        batch.act();
        let mut held = uring.hold()?;
        let state = held.state();
        (state.acting, state.looked, state.linked) = (0, end, linked);
    }
}

/// What of the entries that nobody has looked at concerns us, and up to which position.
fn scan(state: &mut UringState, queue: &SubmissionQueue) -> (Batch, u32) {
    let mut batch = Batch::new();
    let unseen = state.unseen(queue);
    let mut at = unseen.start;
    while at != unseen.end && !batch.is_full() {
        match queue.place(at) {
            Some(place) => batch.look(state, place),
            None => state.linked = false,
        }
        at = at.wrapping_add(1);
    }
    (batch, at)
}

/// The same before a function of liburing's submits: the entries between the queue's head and tail, which the kernel has
/// left, and those from `unflushed` on, which the function is about to put there. Nobody else may submit meanwhile
/// (io_uring_submit(3) is not for two threads at once).
pub fn look_all(
    uring: &Uring,
    queue: &SubmissionQueue,
    unflushed: std::ops::Range<u32>,
) -> Option<()> {
    let in_queue = positions(queue.head(), queue.tail(), queue.count);
    let in_queue = in_queue.filter_map(|at| queue.place(at));
    let behind = positions(unflushed.start, unflushed.end, queue.count);
    let behind = behind.map(|at| queue.entry(at));
    let mut places = in_queue.chain(behind);
    let mut linked = false;
    loop {
        let mut batch = Batch::new();
        let mut held = uring.hold()?;
        let state = held.state();
        state.linked = linked;
        while !batch.is_full()
            && let Some(place) = places.next()
        {
            batch.look(state, place);
        }
        linked = state.linked;
        drop(held);
        if batch.len == 0 {
            return Some(());
        }
        batch.act();
    }
}

/// At most as many as the queue has.
fn positions(from: u32, to: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = match to.wrapping_sub(from) {
        count if count <= most => count,
        _ => 0,
    };
    (0..count).map(move |at| from.wrapping_add(at))
}
