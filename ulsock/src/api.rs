//! What the preload library calls: one function per intercepted libc call, nothing else.
//!
//! Every function may be called from any thread at any time and leaves `errno` alone.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::flight::Flights;
use crate::io::Way;
use crate::record::Record;
use crate::thread::Thread;

pub use crate::access::{copy, is_readable, load, load_if_any, load_word, store};
pub use crate::birth::{
    accepted, before_connect, connected, is_listener, listening, socket_opened,
};
pub use crate::cancel::{
    init as cancellation, requested as cancelling, type_changed as cancel_type_changed,
};
pub use crate::epoll::{epoll_ctl, epoll_wait, time_of_wait, Begun, Doze};
pub use crate::inherit::{
    before_chroot, before_exec, before_plugin, before_sandbox, before_spawn, before_spawn_of_all,
    exec_failed, exiting, fork_child, fork_parent, fork_prepare,
};
pub use crate::io::{
    read, readv, recv, recv_first, recvfrom, recvmmsg, recvmsg, send, send_first, sendfile,
    sendmmsg, sendmsg, takes_address, write, writev, First,
};
pub use crate::lifecycle::{close, close_range, dup_over, duped, fd_opened, guard, shutdown};
pub use crate::limits::{
    before_limit, concerns as limit_concerns_us, limit_set, lower as lower_limit,
    raised as raised_limit,
};
pub use crate::mlock::mlockall;
pub use crate::options::{fcntl, ioctl};
pub use crate::passing::{passing_fds, peek_begins, peek_ends, received_fds, Passing};
pub use crate::poll::poll;
pub use crate::process::{init, is_on};
pub use crate::select::{select, select_limit};
pub use crate::signal::{init as signals, restarts, sigaction, RealSigaction};
pub use crate::sockopt::{getsockopt, option_read, option_set, setsockopt};
pub use crate::unhooked::ring_made as io_uring_made;
pub use crate::vfork::{child as vfork_child, parent as vfork_parent, prepare as vfork_prepare};

/// What became of an intercepted call.
#[must_use]
pub enum Verdict {
    /// Not ours: call the real function.
    Bypass,
    /// A TCP socket that is on kernel TCP: call the real function, then [`InFlight::done`].
    Kernel(InFlight),
    /// One that stays there: call the real function, then [`Counted::done`].
    Counted(Counted),
    /// Done in user space with this result.
    Done(isize),
    /// Failed with this errno.
    Fail(c_int),
}

/// A kernel call on one of our sockets that is under way.
#[must_use]
pub struct InFlight {
    record: &'static Record,
    way: Way,
    /// The thread's list, and its place there.
    flight: Option<(&'static Flights, usize)>,
}

impl InFlight {
    #[inline]
    pub(crate) fn new(record: &'static Record, way: Way) -> InFlight {
        let flight = Thread::me().and_then(|me| {
            let flights = &me.bed().flights;
            Some((flights, flights.begin(record, way)?))
        });
        InFlight {
            record,
            way,
            flight,
        }
    }

    /// Ends the call and counts what it moved (the real function's return value). It makes no call
    /// that could change `errno`.
    pub fn done(self, result: isize) {
        if let Some((flights, place)) = self.flight {
            flights.came_back(place);
        }
        crate::io::ended(self.record, self.way, result);
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
    pub(crate) fn new(record: &'static Record, way: Way) -> Counted {
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
            crate::io::counts(self.record, self.way).moved_by_kernel(result);
        }
    }
}

/// After a successful `epoll_create`.
pub fn epoll_opened(fd: c_int) {
    crate::lifecycle::fd_opened(fd);
    crate::epoll::opened(fd);
}

/// Has there been any TCP connection?
pub fn has_connections() -> bool {
    crate::process::is_on() && crate::process::family().is_some()
}

/// Before a new program is started that this descriptor is handed to.
pub fn to_program(fd: c_int) {
    crate::options::to_kernel(fd, crate::reason::Reason::Exec);
}

/// Before a call that we do not handle on an accelerated connection (`splice`, `fdopen`...).
pub fn to_kernel(fd: c_int) {
    crate::options::to_kernel(fd, crate::reason::Reason::Call);
}
