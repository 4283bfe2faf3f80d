//! Beside an io_uring: a program may work on some descriptors by its entries and on others by calls. Before the kernel
//! takes new entries we look at them. Those that work on a connection return it to the kernel first; those that change
//! an epoll set of ours are done here; all others pass.
//!
//! What cannot be looked at returns every connection, for good: io_urings whose queue a thread of the kernel's reads, that
//! were made past libc and liburing, or by another process. One that was inherited by fork can be looked at if it is
//! liburing's, as in a server that makes one for each child before it forks: its functions say where the queue is.

mod act;
mod end;
mod entry;
mod liburing;
mod look;
mod made;
mod operation;
mod program;
mod serve;
mod wait;

use std::os::fd::{BorrowedFd, RawFd};

use os::access;
use os::proc;
use os::uring::{Params, enter, setup};

pub use end::{is_watched, stop, stop_all};
pub use liburing::Liburing;
pub use serve::{Call, Real, instead};
pub use wait::Limit;

use crate::calls::descriptors;
use crate::promote::unhooked;
use crate::runtime::process;
use crate::state::table::{self, Slot};
use crate::state::urings::{self, Uring};

/// After io_uring_setup(2) has given this number.
///
/// # Safety
/// `params` is what the call was given.
pub unsafe fn made(fd: RawFd, params: *const Params) {
    if !process::is_on() {
        return;
    }
    // SAFETY: any bytes are parameters.
    let Some(params) = (unsafe { access::load(params) }) else {
        return unhooked::uring_is_unseen();
    };
    if params.flags & setup::REGISTERED_FD_ONLY == 0 {
        descriptors::fd_opened(fd);
    }
    if !process::is_frozen() && !urings::opened(fd, &params) {
        unhooked::uring_is_unseen();
    }
}

/// After a function of liburing's has made one. `known`: it is a version whose structure we know.
///
/// # Safety
/// `uring` is the structure that it was given.
pub unsafe fn made_by_liburing(uring: *const Liburing, known: bool) {
    if !process::is_on() {
        return;
    }
    // SAFETY: as the caller says.
    let made = known.then(|| unsafe { Liburing::load(uring) });
    let Some(made) = made else {
        return unhooked::uring_is_unseen();
    };
    if is_uring(made.fd()) {
        descriptors::fd_opened(made.fd());
    }
    if !process::is_frozen() && !urings::opened_by_liburing(made.fd(), made.flags()) {
        unhooked::uring_is_unseen();
    }
}

/// A call of io_uring_enter(2): what is left to be asked of the kernel.
#[must_use]
pub struct Entering {
    pub to_submit: u32,
    pub flags: u32,
    granted: Option<&'static Uring>,
}

impl Entering {
    /// Must the kernel's answer be told?
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.granted.is_some()
    }

    /// The kernel has answered.
    pub fn done(self, result: isize) {
        if let Some(uring) = self.granted {
            uring.ended(self.to_submit, u32::try_from(result).unwrap_or(0));
        }
    }
}

/// Before io_uring_enter(2).
#[inline]
pub fn before_enter(fd: RawFd, to_submit: u32, flags: u32) -> Entering {
    let mut entering = Entering {
        to_submit,
        flags,
        granted: None,
    };
    end::stop_by_number(fd);
    if to_submit > 0 && may_concern() {
        look(&mut entering, fd);
    }
    entering
}

/// A program without sockets and sets may do what it likes.
#[inline]
fn may_concern() -> bool {
    table::is_used() && process::is_on() && !process::is_frozen()
}

fn look(entering: &mut Entering, fd: RawFd) {
    let uring = match entering.flags & enter::REGISTERED_RING {
        0 => urings::of(fd),
        _ => None,
    };
    let grant = uring.and_then(|uring| look::look(uring, entering.to_submit));
    let Some(grant) = grant else {
        if entering.flags & enter::REGISTERED_RING != 0 || is_uring(fd) {
            unhooked::uring_is_unseen();
        }
        return;
    };
    entering.granted = uring.filter(|_| grant.is_noted);
    if grant.entries < entering.to_submit {
        // The kernel does not wait after it has taken fewer entries than it was asked to.
        entering.flags &= !enter::GETEVENTS;
    }
    entering.to_submit = grant.entries;
}

/// Before a function of liburing's that may submit.
///
/// # Safety
/// `uring` is the structure that it was given; `known`: it is of a version that we know.
#[inline]
pub unsafe fn before_submit(uring: *const Liburing, known: bool) {
    if may_concern() {
        // SAFETY: as the caller says.
        unsafe { look_all(uring, known) };
    }
}

/// Before a function of liburing's that waits for a time. Usually it leaves the entries alone, which another thread may be
/// writing just now.
///
/// # Safety
/// As [`before_submit`].
pub unsafe fn before_wait(uring: *const Liburing, known: bool) {
    if !may_concern() {
        return;
    }
    // SAFETY: as the caller says.
    let given = known.then(|| unsafe { Liburing::load(uring) });
    if given.is_none_or(|given| given.waits_by_entry()) {
        // SAFETY: as the caller says.
        unsafe { look_all(uring, known) };
    }
}

unsafe fn look_all(uring: *const Liburing, known: bool) {
    // SAFETY: as the caller says.
    let looked = known.then(|| unsafe {
        let given = Liburing::load(uring);
        let (queue, unflushed) = given.queue()?;
        look::look_all(urings::of(given.fd())?, &queue, unflushed)
    });
    if looked.flatten().is_none() {
        unhooked::uring_is_unseen();
    }
}

/// Before liburing closes one by itself.
///
/// # Safety
/// `uring` is the structure that it was given.
pub unsafe fn before_exit(uring: *const Liburing, known: bool) {
    // SAFETY: as the caller says.
    if let Some(given) = known.then(|| unsafe { Liburing::load(uring) })
        && matches!(table::get(given.fd()), Slot::Uring(_))
    {
        let _ = descriptors::close(given.fd());
    }
}

/// Its last number is closed.
pub fn closed(number: u32) {
    if let Some(served) = urings::closed(number) {
        end::let_go(&served);
    }
}

/// Operations of io_uring_register(2).
mod register {
    pub const FILES: u32 = 2;
    pub const EVENTFD: u32 = 4;
    pub const UNREGISTER_EVENTFD: u32 = 5;
    pub const FILES_UPDATE: u32 = 6;
    pub const EVENTFD_ASYNC: u32 = 7;
    pub const RESTRICTIONS: u32 = 11;
    pub const FILES2: u32 = 13;
    pub const FILES_UPDATE2: u32 = 14;
    pub const RING_FDS: u32 = 20;
    pub const SYNC_CANCEL: u32 = 24;
    pub const RESIZE_RINGS: u32 = 33;
    /// QUERY, of Linux 6.18.
    pub const LAST_KNOWN: u32 = 35;
    /// With an operation: the io_uring is named by an index.
    pub const USE_REGISTERED_RING: u32 = 1 << 31;
}

/// Before io_uring_register(2): connections that come into the io_uring's own table return, and what would keep us from looking
/// returns all.
pub fn before_register(fd: RawFd, operation: u32, argument: usize, count: u32) {
    if !process::is_on() || process::is_frozen() {
        return;
    }
    let words = argument as *const u64;
    // SAFETY: any bytes are a number, and a bad place is found out.
    let word = |at: usize| unsafe { access::load(words.wrapping_add(at)) };
    match operation & !register::USE_REGISTERED_RING {
        register::EVENTFD | register::EVENTFD_ASYNC => is_watched(fd),
        register::UNREGISTER_EVENTFD | register::SYNC_CANCEL => end::stop_by_number(fd),
        register::FILES => act::return_files(argument as *const i32, count),
        // struct io_uring_files_update: offset, reserved; files.
        register::FILES_UPDATE => {
            if let Some(files) = word(1) {
                act::return_files(files as *const i32, count);
            }
        }
        // struct io_uring_rsrc_register: count, flags; reserved; files.
        register::FILES2 => {
            if let (Some(count), Some(files)) = (word(0), word(2)) {
                act::return_files(files as *const i32, count as u32);
            }
        }
        // struct io_uring_rsrc_update2: offset, reserved; files; tags; count, reserved.
        register::FILES_UPDATE2 => {
            if let (Some(files), Some(count)) = (word(1), word(3)) {
                act::return_files(files as *const i32, count as u32);
            }
        }
        register::RESTRICTIONS | register::RING_FDS | register::RESIZE_RINGS => {
            unhooked::uring_is_unseen();
        }
        operation if operation > register::LAST_KNOWN => unhooked::uring_is_unseen(),
        _ => {}
    }
}

/// The same before a function of liburing's that puts files there.
pub fn before_register_files(files: *const i32, count: u32) {
    if may_concern() {
        act::return_files(files, count);
    }
}

fn is_uring(fd: RawFd) -> bool {
    // SAFETY: the number is only named; if nothing is open there, the question fails.
    fd >= 0 && proc::is_uring(unsafe { BorrowedFd::borrow_raw(fd) })
}
