//! What the preload library calls: one function per intercepted libc call, nothing else.
//!
//! Every function may be called from any thread at any time and leaves `errno` alone.

use libc::c_int;

use crate::promote::hope;
use crate::state::record::Record;

pub use crate::calls::descriptors::{close, close_range, dup_over, duped, fd_opened, shutdown};
pub use crate::calls::io::{
    First, read, readv, recv, recv_first, recvfrom, recvmmsg, recvmsg, send, send_first,
    send_two_first, sendfile, sendmmsg, sendmsg, takes_address, write, writev,
};
pub use crate::calls::life::{
    before_exec, exec_failed, exiting, fork_child, fork_parent, fork_prepare, forked, start as init,
};
pub use crate::calls::limits::{
    before_limit, concerns as limit_concerns_us, limit_set, lower as lower_limit,
    raised as raised_limit,
};
pub use crate::calls::opening::{
    accepted, before_accept, before_connect, connected, is_listener, listening, not_connected,
    pair_opened, socket_opened,
};
pub use crate::calls::options::{fcntl, ioctl};
pub use crate::calls::passing::{Passing, passing_fds, peek_begins, peek_ends, received_fds};
pub use crate::calls::restart::init as restarts;
pub use crate::calls::return_all::{
    before_chroot, before_plugin, before_sandbox, before_spawn, before_spawn_of_all, before_vfork,
};
pub use crate::calls::sockopt::{getsockopt, option_read, option_set, setsockopt};
pub use crate::calls::uring;
pub use crate::calls::vfork::{
    child as vfork_child, parent as vfork_parent, prepare as vfork_prepare,
};
pub use crate::conn::in_place::{Committed, RingRoom, RingView};
pub use crate::conn::recv::in_place::{consume, view};
pub use crate::conn::send::in_place::{commit, reserve};
pub use crate::conn::{is_empty_ring, wait_awake, wait_briefly};
pub use crate::ready::epoll::{Begun, KernelWait, epoll_ctl, epoll_wait, time_of_wait};
pub use crate::ready::poll::poll;
pub use crate::ready::select::{select, select_limit};
pub use crate::runtime::cancel::{
    init as cancellation, requested as cancelling, type_changed as cancel_type_changed,
};
pub use crate::runtime::process::is_on;
pub use crate::runtime::signal::{RealSigaction, Shown, disguise, init as signals, sigaction};
pub use crate::runtime::spin::until as spin_until;
pub use crate::state::trace_look::attach as attach_recorder;
pub use crate::state::verdict::{Counted, InFlight, Verdict, guard};
pub use os::access::{copy, is_readable, load, load_if_any, load_word, store};
pub use os::mlock::mlockall;

/// After a successful `epoll_create`.
pub fn epoll_opened(fd: c_int) {
    crate::calls::descriptors::fd_opened(fd);
    crate::ready::epoll::opened(fd);
}

/// Has there been any connection of ours?
pub fn has_connections() -> bool {
    let any = || crate::state::process_group::own().is_some() || crate::state::young::are_used();
    crate::runtime::process::is_on() && any()
}

/// Are the calls of a Go program to come to us?
pub fn serves_go() -> bool {
    crate::runtime::process::config().go
}

/// An io_uring is used in a way that we cannot follow.
pub fn uring_is_unseen() {
    crate::promote::unhooked::uring_is_unseen();
}

/// Before a new program is started that this descriptor is handed to.
pub fn to_program(fd: c_int) {
    crate::conn::handover::to_kernel(fd, rendezvous::reason::Reason::Exec);
}

/// Is a program that can copy by itself to do so, instead of splicing from this connection? Its bytes come in a ring, or are
/// likely to do so soon; or it is a Unix socket, of which nobody but us counts what is taken.
pub fn is_better_copied(fd: c_int) -> bool {
    let record = crate::state::process_group::record_of(fd);
    let on_ring = |record: &Record| record.rx.is_on_ring() || hope::is_likely(record, fd);
    crate::calls::io::is_unix(fd) || record.is_some_and(|(_, _, record)| on_ring(record))
}

/// A call of the kernel's has found no room on this connection.
pub fn send_blocked(fd: c_int) {
    if let Some(handle) = crate::conn::managed(fd) {
        crate::ready::epoll::send_blocked(handle);
    }
}

/// Before a call that we do not handle on an accelerated connection (`splice`, `fdopen`...).
pub fn to_kernel(fd: c_int) {
    crate::conn::handover::to_kernel(fd, rendezvous::reason::Reason::Call);
}
