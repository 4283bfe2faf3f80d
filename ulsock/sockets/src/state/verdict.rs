//! What an intercepted call should do.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::c_int;
use rustix::io::Errno;

use crate::runtime::kernel_calls::KernelCalls;
use crate::runtime::thread::Thread;
use crate::runtime::way::Way;
use crate::state::record::Record;
use crate::state::table::{self, Slot};
use crate::state::young::YoungCall;

/// What became of an intercepted call.
#[must_use]
pub enum Verdict {
    /// Not ours: call the real function.
    Bypass,
    /// A TCP socket that is on kernel TCP: call the real function, then [`InFlight::done`].
    Kernel(InFlight),
    /// One that stays there: call the real function, then [`Counted::done`].
    Counted(Counted),
    /// One without a record: call the real function, then `YoungCall::done`.
    Young(YoungCall),
    /// Done in user space with this result.
    Done(isize),
    /// Failed with this errno.
    Fail(c_int),
}

impl Verdict {
    /// The call's result, for callers that are no libc function: `real` asks the kernel, if it is to be asked.
    pub fn answer(self, real: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
        let as_libc = |result: &Result<usize, Errno>| match result {
            Ok(n) => n.cast_signed(),
            Err(_) => -1,
        };
        match self {
            Verdict::Bypass => real(),
            Verdict::Kernel(call) => {
                let result = real();
                call.done(as_libc(&result));
                result
            }
            Verdict::Counted(call) => {
                let result = real();
                call.done(as_libc(&result));
                result
            }
            Verdict::Young(call) => {
                let result = real();
                call.done(as_libc(&result));
                result
            }
            Verdict::Done(n) => Ok(n.cast_unsigned()),
            Verdict::Fail(errno) => Err(Errno::from_raw_os_error(errno)),
        }
    }
}

/// A kernel call on one of our sockets that is under way.
#[must_use]
pub struct InFlight {
    record: &'static Record,
    way: Way,
    /// It takes nothing.
    peeks: bool,
    /// The thread's list, and its place there.
    flight: Option<(&'static KernelCalls, usize)>,
}

impl InFlight {
    #[inline]
    pub fn new(record: &'static Record, way: Way) -> InFlight {
        let flight = Thread::me().and_then(|me| {
            let flights = &me.bed().flights;
            Some((flights, flights.begin(record, way)?))
        });
        InFlight {
            record,
            way,
            peeks: false,
            flight,
        }
    }

    /// A receive that leaves the bytes where they are moves none.
    pub fn peeking(self, peeks: bool) -> InFlight {
        InFlight { peeks, ..self }
    }

    /// Ends the call and counts what it moved (the real function's return value). It makes no call
    /// that could change `errno`.
    pub fn done(self, result: isize) {
        if let Some((flights, place)) = self.flight {
            flights.came_back(place);
        }
        note_moved(self.way, result);
        let moved = if self.peeks { 0 } else { result };
        self.record.kernel_call_ended(self.way, moved);
    }
}

/// A kernel call on a connection that stays there: nobody has to know that it is under way.
#[must_use]
pub struct Counted {
    record: &'static Record,
    way: Way,
    generation: u32,
}

impl Counted {
    #[inline]
    pub fn new(record: &'static Record, way: Way) -> Counted {
        Counted {
            record,
            way,
            generation: record.generation.load(Ordering::Relaxed),
        }
    }

    /// Counts what it moved (the real function's return value), unless the connection was closed meanwhile.
    /// Not inlined: other calls must not pay for its registers.
    #[inline(never)]
    pub fn done(self, result: isize) {
        if self.record.generation.load(Ordering::Relaxed) == self.generation {
            self.record.counts(self.way).moved_by_kernel(result);
        }
        note_moved(self.way, result);
    }
}

/// How this thread waits next depends on what it has sent and received.
#[inline]
fn note_moved(way: Way, result: isize) {
    if let Some(me) = Thread::known() {
        match way {
            Way::In => me.rhythm.note_bytes(result),
            Way::Out => me.rhythm.note_sent(),
        }
    }
}

/// Our internal fds do not exist for the program.
#[inline]
pub fn guard(fd: RawFd) -> Verdict {
    match table::get(fd) {
        Slot::Internal => Verdict::Fail(libc::EBADF),
        _ => Verdict::Bypass,
    }
}
