//! Sockets that an io_uring has made: the kernel accepts or connects, and its completion tells us of the connection before the
//! program hears of it. From then on it is one like any other, as after `accept` and `connect`.

use std::os::fd::{BorrowedFd, RawFd};

use os::tcp;
use os::uring::{self, Cqe, Sqe};

use super::entry;
use super::program::{Program, links_next};
use crate::calls::opening;
use crate::state::table::{self, Slot};
use crate::state::urings::{Made, Maker, Served, Uring};

/// More are not followed: what they make stays on kernel TCP.
const MOST_MAKERS: usize = 1024;
/// More completions of the same operation follow.
const MORE: u32 = 1 << 1;

/// Notes the entries that are about to make sockets.
pub fn note(program: &Program, served: &mut Served) {
    for place in program.places() {
        // SAFETY: an entry of the mapped queue.
        let entry = unsafe { uring::copy(place) };
        if let Some(made) = maker(&entry)
            && served.makers.len() < MOST_MAKERS
        {
            if served.makers.is_empty() {
                served.looked = program.completion_end();
            }
            let user_data = entry.user_data;
            served.makers.push(Maker { user_data, made });
        }
    }
}

fn maker(entry: &Sqe) -> Option<Made> {
    let in_own_table = entry.flags & uring::sqe::FIXED_FILE != 0 || entry.splice_fd_in != 0;
    if in_own_table || links_next(entry) {
        return None;
    }
    match entry.opcode {
        entry::ACCEPT => {
            opening::before_accept(entry.fd);
            let (listener, flags) = (entry.fd, entry.op_flags.cast_signed());
            Some(Made::Accepted { listener, flags })
        }
        entry::CONNECT => Some(Made::Connected { fd: entry.fd }),
        _ => None,
    }
}

/// Looks at the completions that have come since the last look.
pub fn look(program: &Program, served: &mut Served) {
    if served.makers.is_empty() {
        return;
    }
    let end = program.completion_end();
    let new = end
        .wrapping_sub(served.looked)
        .min(program.completion_count());
    for at in (1..=new).rev() {
        completed(served, program.completion(end.wrapping_sub(at)));
    }
    served.looked = end;
}

/// The same after the call.
pub fn look_after(program: &Program, uring: &Uring) {
    if let Some(mut served) = uring.borrow_served() {
        look(program, &mut served);
    }
}

fn completed(served: &mut Served, completion: Cqe) {
    let mut makers = served.makers.iter();
    let Some(at) = makers.position(|maker| maker.user_data == completion.user_data) else {
        return;
    };
    let Maker { made, .. } = served.makers[at];
    if completion.flags & MORE == 0 {
        served.makers.swap_remove(at);
    }
    match made {
        Made::Accepted { listener, flags } if completion.res >= 0 => {
            accepted(listener, completion.res, flags);
        }
        Made::Connected { fd } if completion.res == 0 => connected(fd),
        _ => {}
    }
}

fn accepted(listener: RawFd, fd: RawFd, flags: i32) {
    if is_new(fd, 0) {
        // SAFETY: no address is named.
        unsafe { opening::accepted(listener, fd, None, flags) };
    }
}

fn connected(fd: RawFd) {
    // Who connects has given a SYN.
    if is_new(fd, 1) {
        // SAFETY: as `is_new` has found.
        opening::inherited(fd, unsafe { BorrowedFd::borrow_raw(fd) }, true);
    }
}

/// Another operation of the same name may have had this result: it must be a connection that nobody knows, and over which
/// nothing has gone yet.
fn is_new(fd: RawFd, given: u64) -> bool {
    if table::get(fd) != Slot::Foreign {
        return false;
    }
    // SAFETY: the number is only named; if nothing is open there, the questions fail.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    tcp::is_tcp(socket)
        && tcp::peer_addr(socket).is_ok()
        && tcp::given(socket) == Some(given)
        && tcp::taken(socket) == Some(0)
}
