//! The serving of an io_uring ends: the kernel is given what is kept, or nobody waits for it any more.

use std::os::fd::RawFd;

use os::access;

use super::Liburing;
use super::program::Program;
use super::serve::Serving;
use crate::conn::kept;
use crate::state::table::{self, Slot};
use crate::state::urings::{self, Served, Uring};

/// Before a function of liburing's that is not served.
///
/// # Safety
/// As [`super::instead`].
pub unsafe fn stop(given: *mut Liburing, known: bool) {
    if !known || !urings::any_is_served() {
        return;
    }
    // SAFETY: as the caller says.
    if let Some(program) = unsafe { Program::new(given) } {
        stop_with(&program);
    }
}

/// The same before the system call itself, which names only the descriptor.
pub fn stop_by_number(fd: RawFd) {
    if !urings::any_is_served() {
        return;
    }
    let Some(place) = urings::of(fd)
        .and_then(Uring::borrow_served)
        .map(|served| served.place)
    else {
        return;
    };
    // SAFETY: any bytes are such a structure, and a bad place is found out; one that names this descriptor is in use.
    let program = unsafe {
        let place = place as *mut Liburing;
        let is_it = access::load(place.cast_const()).is_some_and(|given| given.fd() == fd);
        is_it.then(|| Program::new(place)).flatten()
    };
    if let Some(program) = program {
        stop_with(&program);
    }
}

fn stop_with(program: &Program) {
    if let Some(mut served) = urings::of(program.fd()).and_then(Uring::borrow_served) {
        Serving::new(program, &mut served, false).stop();
        served.end();
    }
}

/// Somebody waits for its completions by a descriptor, as for everything that the kernel does.
pub fn is_watched(fd: RawFd) {
    if let Some(uring) = urings::of(fd).filter(|_| urings::any_is_served()) {
        uring.is_watched();
        stop_by_number(fd);
    }
}

/// Before we are not there any more: this thread's are the kernel's.
pub fn stop_all() {
    if urings::any_is_served() {
        let urings = table::all().filter(|(_, slot)| matches!(slot, Slot::Uring(_)));
        urings.for_each(|(fd, _)| stop_by_number(fd));
    }
}

/// What was kept for an io_uring that is closed, or whose thread has ended: the kernel drops such operations.
pub fn let_go(served: &Served) {
    for operation in &served.kept {
        kept::left(operation.handle.number);
    }
}
