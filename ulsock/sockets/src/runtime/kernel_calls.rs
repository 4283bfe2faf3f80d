//! Kernel calls under way on plain and on young connections, and calls of ours that sleep, by thread: who leaves one by a jump or is
//! cancelled in it would stay inside the gate, or keep the connection, for ever.
//!
//! The kernel restarts a call after a handler without our seeing it, so the call is not over when a
//! handler runs. It is over when the thread ends, or makes another call from the same place of its
//! stack or one further out.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::runtime::upcalls;
use crate::runtime::way::Way;

/// Calls that handlers have interrupted, one inside the other. More are not written down.
const MOST_NESTED: usize = 4;
/// Beyond this the other call may be on another stack.
const NEAR: usize = 16 << 10;

pub struct KernelCalls {
    count: AtomicUsize,
    list: UnsafeCell<[KernelCall; MOST_NESTED]>,
}

/// All zero: none.
#[derive(Clone, Copy)]
struct KernelCall {
    /// Or the entry of a young connection.
    record: *const (),
    way: Way,
    is_young: bool,
    /// Of a call that keeps its connection: the record's number, plus one.
    keeps: u32,
    /// Where on the stack the call was made.
    at: usize,
}

impl KernelCalls {
    /// Writes a call down; its place in the list, if it has one.
    #[inline]
    pub fn begin<Record>(&self, record: &'static Record, way: Way) -> Option<usize> {
        self.note(std::ptr::from_ref(record).cast(), way, false, 0)
    }

    /// The same of a call on a young connection.
    #[inline]
    pub fn begin_young<Entry>(&self, entry: &'static Entry, way: Way) -> Option<usize> {
        self.note(std::ptr::from_ref(entry).cast(), way, true, 0)
    }

    /// The same for a call that keeps the connection of this number.
    pub fn begin_call(&self, number: u32) -> Option<usize> {
        self.note(std::ptr::null(), Way::In, false, number + 1)
    }

    #[inline]
    fn note(&self, record: *const (), way: Way, is_young: bool, keeps: u32) -> Option<usize> {
        let mark = 0u8;
        let at = &raw const mark as usize;
        let mut count = self.count.load(Ordering::Relaxed);
        if count > 0 {
            count = self.end_those_left(at);
        }
        if count == MOST_NESTED {
            return None;
        }
        let flight = KernelCall {
            record,
            way,
            is_young,
            keeps,
            at,
        };
        self.put(count, flight);
        self.count.store(count + 1, Ordering::Relaxed);
        Some(count)
    }

    /// A call is made from `at`; how many are still under way.
    #[cold]
    fn end_those_left(&self, at: usize) -> usize {
        let mut count = self.count.load(Ordering::Relaxed);
        while count > 0 && self.is_over(count - 1, at) {
            count -= 1;
            self.end_from(count);
        }
        count
    }

    fn get(&self, index: usize) -> KernelCall {
        // SAFETY: only the owning thread and its handlers come here, and a handler leaves the entries
        // below the count as they are.
        unsafe { (*self.list.get())[index] }
    }

    fn put(&self, index: usize, flight: KernelCall) {
        // SAFETY: only the owning thread and its handlers come here, and an entry is written before it is counted.
        unsafe { (*self.list.get())[index] = flight };
    }

    /// A call made from `at` shows that this one has been left: a handler's call would lie deeper.
    fn is_over(&self, index: usize, at: usize) -> bool {
        at.wrapping_sub(self.get(index).at) < NEAR && !on_signal_stack()
    }

    /// The call came back; those that handlers began inside it are over too.
    #[inline]
    pub fn came_back(&self, index: usize) {
        if self.count.load(Ordering::Relaxed) > index + 1 {
            self.end_from(index + 1);
        }
        self.count.store(index, Ordering::Relaxed);
    }

    /// Is the latest call under way one on this connection, this way?
    pub fn newest_is<Record>(&self, record: &Record, way: Way) -> bool {
        let Some(newest) = self.count.load(Ordering::Relaxed).checked_sub(1) else {
            return false;
        };
        let flight = self.get(newest);
        std::ptr::eq(flight.record, std::ptr::from_ref(record).cast()) && flight.way == way
    }

    #[cold]
    fn end_from(&self, first: usize) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(first.min(count), Ordering::Relaxed);
        for index in first..count {
            let flight = self.get(index);
            if !flight.record.is_null() {
                match flight.is_young {
                    true => (upcalls::get().young_call_left)(flight.record, flight.way),
                    false => (upcalls::get().kernel_call_ended)(flight.record, flight.way),
                }
            }
            if let Some(number) = flight.keeps.checked_sub(1) {
                (upcalls::get().caller_left)(number);
            }
        }
    }

    pub fn end_all(&self) {
        self.end_from(0);
    }

    pub fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
    }
}

fn on_signal_stack() -> bool {
    // SAFETY: all zero is a valid stack_t, which the call fills.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack);
        stack.ss_flags & libc::SS_ONSTACK != 0
    }
}
