//! A program's `struct io_uring` during a call of its own: its entries that the kernel has not taken yet, and entries of ours
//! among them.

use std::ops::Range;
use std::os::fd::RawFd;

use os::backoff::Backoff;
use os::uring::{self, Cqe, Sqe, SubmissionQueue, enter, sqe};

use super::Liburing;
use super::entry;

/// A kernel that takes nothing so many times takes nothing any more.
const TRIES: u32 = 1000;

/// The program is in a call to liburing with it, and nobody else uses it.
pub struct Program {
    place: *mut Liburing,
    queue: SubmissionQueue,
    fd: RawFd,
}

impl Program {
    /// # Safety
    /// `place` is what the program gave to a function of liburing 2; to be used within that call.
    pub unsafe fn new(place: *mut Liburing) -> Option<Program> {
        // SAFETY: as the caller says.
        let (given, queue) = unsafe {
            let given = Liburing::load(place);
            (given, given.queue()?.0)
        };
        let fd = given.fd();
        Some(Program { place, queue, fd })
    }

    pub fn fd(&self) -> RawFd {
        self.fd
    }

    fn now(&self) -> Liburing {
        // SAFETY: as `new` says.
        unsafe { Liburing::load(self.place) }
    }

    /// Entries that the program has ready, and the queue does not have yet.
    fn unflushed(&self) -> Range<u32> {
        // SAFETY: as `new` says.
        match unsafe { self.now().queue() } {
            Some((_, range)) if range.end.wrapping_sub(range.start) <= self.queue.count => range,
            _ => self.queue.tail()..self.queue.tail(),
        }
    }

    fn set_unflushed(&self, entries: Range<u32>) {
        // SAFETY: as `new` says.
        unsafe { Liburing::set_unflushed(self.place, entries) };
    }

    /// How many entries a function that submits would give to the kernel.
    pub fn count(&self) -> u32 {
        let count = self.unflushed().end.wrapping_sub(self.queue.head());
        if count <= self.queue.count { count } else { 0 }
    }

    /// Where those are that the program has ready, in their order.
    pub fn places(&self) -> impl Iterator<Item = *mut Sqe> {
        let Range { start, end } = self.unflushed();
        (0..end.wrapping_sub(start)).map(move |at| self.queue.entry(start.wrapping_add(at)))
    }

    /// Takes those out that are as this one: how many.
    pub fn take_out(&self, which: Sqe) -> u32 {
        let Range { start, end } = self.unflushed();
        let mut next = start;
        for place in self.places() {
            // SAFETY: an entry of the mapped queue.
            let entry = unsafe { uring::copy(place) };
            if entry != which {
                uring::overwrite(self.queue.entry(next), entry);
                next = next.wrapping_add(1);
            }
        }
        self.set_unflushed(start..next);
        end.wrapping_sub(next)
    }

    /// These are what the program has ready.
    fn put(&self, start: u32, entries: &[Sqe]) {
        for (at, entry) in entries.iter().enumerate() {
            uring::overwrite(self.queue.entry(start.wrapping_add(at as u32)), *entry);
        }
        self.set_unflushed(start..start.wrapping_add(entries.len() as u32));
    }

    /// Puts one behind them; `false`: there is no room.
    pub fn append(&self, entry: Sqe) -> bool {
        if self.count() >= self.queue.count {
            return false;
        }
        let Range { start, end } = self.unflushed();
        uring::overwrite(self.queue.entry(end), entry);
        self.set_unflushed(start..end.wrapping_add(1));
        true
    }

    /// Gives them to the kernel, and hears what it has done meanwhile: how many it has taken.
    pub fn submit(&self) -> u32 {
        let Range { start, end } = self.unflushed();
        self.queue.publish(start, end);
        self.set_unflushed(end..end);
        let entries = end.wrapping_sub(self.queue.head());
        uring::submit(self.fd, entries, enter::GETEVENTS).unwrap_or(0)
    }

    /// Hears what the kernel has done meanwhile.
    pub fn flush(&self) {
        let _ = uring::submit(self.fd, 0, enter::GETEVENTS);
    }

    /// Gives the kernel entries of ours before those that the program is about to submit.
    pub fn submit_before(&self, entries: &[Sqe]) {
        if self.queue.head() != self.queue.tail() {
            return self.submit_own(entries);
        }
        // SAFETY: entries of the mapped queue.
        let copy = |place: *mut Sqe| unsafe { uring::copy(place) };
        let programs: Vec<Sqe> = self.places().map(copy).collect();
        let start = self.queue.tail();
        self.set_unflushed(start..start);
        self.submit_own(entries);
        self.put(self.queue.tail(), &programs);
    }

    /// Gives the kernel entries of ours, and leaves the program's where they are: it may be writing them still.
    pub fn submit_own(&self, entries: &[Sqe]) {
        for entries in entries.chunks(self.queue.count as usize) {
            match self.count() {
                0 => self.submit_alone(entries),
                _ => self.submit_in_a_turn(entries),
            }
        }
    }

    fn submit_alone(&self, entries: &[Sqe]) {
        let start = self.queue.tail();
        let end = start.wrapping_add(entries.len() as u32);
        self.put(start, entries);
        self.queue.publish(start, end);
        self.all_taken(end);
        self.set_unflushed(end..end);
    }

    /// All places are used once, and then the program's entries are put back: they are at the same places, for the queue is a
    /// circle. After entries of which nobody hears the kernel refuses a drain, so this is for the rare case.
    fn submit_in_a_turn(&self, entries: &[Sqe]) {
        let (head, tail) = (self.queue.head(), self.queue.tail());
        let (Range { start, end }, count) = (self.unflushed(), self.queue.count);
        // SAFETY: entries of the mapped queue.
        let copy = |at| unsafe { uring::copy(self.queue.entry(head.wrapping_add(at))) };
        let programs: Vec<Sqe> = (0..count).map(copy).collect();
        let mut turn = entries.to_vec();
        turn.resize(count as usize, entry::unheard());
        let next = |position: u32| position.wrapping_add(count);
        self.put(head, &turn);
        self.queue.publish(head, next(head));
        self.all_taken(next(head));
        self.put(next(head), &programs);
        self.queue.publish(next(head), next(tail));
        self.set_unflushed(next(start)..next(end));
    }

    /// Tells results while the program may be writing its entries: beside the queue, where the kernel can do that.
    pub fn tell(&self, results: &[Sqe]) {
        let told = match self.count() {
            0 => 0,
            _ => results
                .iter()
                .take_while(|result| uring::post(self.fd, result.user_data, result.len).is_ok())
                .count(),
        };
        if told < results.len() {
            self.submit_own(&results[told..]);
        }
    }

    /// Until the kernel has taken all before this position; it may stop at one that it refuses.
    fn all_taken(&self, end: u32) {
        let mut backoff = Backoff::default();
        for _ in 0..TRIES {
            let left = end.wrapping_sub(self.queue.head());
            if left == 0 || left > self.queue.count {
                return;
            }
            if uring::submit(self.fd, left, enter::GETEVENTS).is_err() {
                backoff.pause();
            }
        }
    }

    /// Completions that the program has not taken.
    pub fn completions(&self) -> u32 {
        // SAFETY: as `new` says.
        unsafe { self.now().completions() }
    }

    /// Does the kernel hold completions back for which there was no room?
    pub fn has_overflown(&self) -> bool {
        // SAFETY: as `new` says.
        unsafe { self.now().has_overflown() }
    }

    /// The position of the next completion.
    pub fn completion_end(&self) -> u32 {
        // SAFETY: as `new` says.
        unsafe { self.now().completion_end() }
    }

    /// How many completions the queue has room for.
    pub fn completion_count(&self) -> u32 {
        // SAFETY: as `new` says.
        unsafe { self.now().completion_count() }
    }

    /// The completion at this position, which is before that one.
    pub fn completion(&self, position: u32) -> Cqe {
        // SAFETY: as `new` says.
        unsafe { self.now().completion(position) }
    }
}

/// Is the next entry part of the same chain?
pub fn links_next(entry: &Sqe) -> bool {
    entry.flags & sqe::LINKS_NEXT != 0
}
