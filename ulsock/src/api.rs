//! What the preload library calls: one function per intercepted libc call, nothing else.
//!
//! Every function may be called from any thread at any time and leaves `errno` alone.

use libc::c_int;

pub use crate::access::{copy, is_readable, load, load_if_any, load_word, store};
pub use crate::birth::{
    accepted, before_connect, connected, is_listener, listening, socket_opened,
};
pub use crate::cancel::{
    init as cancellation, requested as cancelling, type_changed as cancel_type_changed,
};
pub use crate::epoll::{epoll_ctl, epoll_wait, time_of_wait, Begun, Doze};
pub use crate::io::{
    read, readv, recv, recv_first, recvfrom, recvmmsg, recvmsg, send, send_first, sendfile,
    sendmmsg, sendmsg, takes_address, write, writev, First,
};
pub use crate::life::{
    before_exec, exec_failed, exiting, fork_child, fork_parent, fork_prepare, start as init,
};
pub use crate::lifecycle::{close, close_range, dup_over, duped, fd_opened, shutdown};
pub use crate::limits::{
    before_limit, concerns as limit_concerns_us, limit_set, lower as lower_limit,
    raised as raised_limit,
};
pub use crate::mlock::mlockall;
pub use crate::options::{fcntl, ioctl};
pub use crate::passing::{passing_fds, peek_begins, peek_ends, received_fds, Passing};
pub use crate::poll::poll;
pub use crate::process::is_on;
pub use crate::restart::init as restarts;
pub use crate::return_all::{
    before_chroot, before_plugin, before_sandbox, before_spawn, before_spawn_of_all,
};
pub use crate::select::{select, select_limit};
pub use crate::signal::{init as signals, sigaction, RealSigaction};
pub use crate::sockopt::{getsockopt, option_read, option_set, setsockopt};
pub use crate::unhooked::ring_made as io_uring_made;
pub use crate::verdict::{guard, Counted, InFlight, Verdict};
pub use crate::vfork::{child as vfork_child, parent as vfork_parent, prepare as vfork_prepare};

/// After a successful `epoll_create`.
pub fn epoll_opened(fd: c_int) {
    crate::lifecycle::fd_opened(fd);
    crate::epoll::opened(fd);
}

/// Has there been any TCP connection?
pub fn has_connections() -> bool {
    crate::process::is_on() && crate::family::own().is_some()
}

/// Before a new program is started that this descriptor is handed to.
pub fn to_program(fd: c_int) {
    crate::conn::handover::to_kernel(fd, crate::reason::Reason::Exec);
}

/// Before a call that we do not handle on an accelerated connection (`splice`, `fdopen`...).
pub fn to_kernel(fd: c_int) {
    crate::conn::handover::to_kernel(fd, crate::reason::Reason::Call);
}
