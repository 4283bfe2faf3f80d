//! What is done about an entry before the kernel takes it. All of it may be done again if the kernel does not.

use std::os::fd::RawFd;

use libc::{EPOLL_CTL_ADD, epoll_event, msghdr};
use os::access;
use os::uring::{self, Sqe, sqe};

use super::end;
use super::entry::{self, Kind};
use crate::calls::descriptors;
use crate::calls::passing;
use crate::conn::handover::Rest;
use crate::promote::for_good;
use crate::promote::unhooked;
use crate::ready::epoll;
use crate::state::table::{self, Slot};
use crate::state::verdict::Verdict;

/// An entry that concerns us.
#[derive(Clone, Copy)]
pub struct Found {
    pub place: *mut Sqe,
    pub entry: Sqe,
    /// The kernel may do it later, or not at all: it follows another one in a chain, or one that waits for all others.
    pub later: bool,
}

impl Found {
    pub fn act(&self) {
        let entry = &self.entry;
        match entry::kind(entry.opcode) {
            Kind::Other => {}
            Kind::Works | Kind::Splice => self.returned(),
            Kind::Message => {
                self.returned();
                // SAFETY: a bad message is found out.
                let _ = unsafe { passing::passing_fds(None, entry.addr as *const msghdr) };
            }
            Kind::Close => self.closes(),
            Kind::EpollCtl if self.later || !self.is_plain_ctl() => self.control_later(),
            Kind::EpollCtl => self.control(),
            Kind::FilesUpdate => return_files(entry.addr as *const i32, entry.len),
            Kind::Unknown => unhooked::uring_is_unseen(),
        }
    }

    /// What it works on is the kernel's.
    fn returned(&self) {
        let named = entry::named(&self.entry);
        if named.iter().any(|fd| table::get(*fd) == Slot::Internal) {
            return self.names_nothing();
        }
        named.into_iter().for_each(return_one);
    }

    /// As before `close`. What the kernel closes later, or not at all, must be its own until then.
    fn closes(&self) {
        let fd = self.entry.fd;
        match table::get(fd) {
            Slot::Internal => self.names_nothing(),
            // The kernel refuses to close one in this way.
            Slot::Uring(_) => {}
            _ => {
                if self.later {
                    return_one(fd);
                }
                let _ = descriptors::close(fd);
            }
        }
    }

    /// In the one form that the kernel accepts?
    fn is_plain_ctl(&self) -> bool {
        const FLAGS: u8 = sqe::IO_LINK | sqe::IO_HARDLINK | sqe::ASYNC | sqe::CQE_SKIP_SUCCESS;
        let Sqe {
            flags,
            ioprio,
            buf_index,
            splice_fd_in,
            ..
        } = self.entry;
        flags & !FLAGS == 0 && (ioprio, buf_index, splice_fd_in) == (0, 0, 0)
    }

    /// Ours does it now, and the entry tells its result.
    fn control(&self) {
        let Sqe { fd, len, addr, .. } = self.entry;
        let (member, event) = (entry::member(&self.entry), addr as *mut epoll_event);
        // SAFETY: a bad event is found out.
        match unsafe { epoll::epoll_ctl(fd, len.cast_signed(), member, event) } {
            Verdict::Done(_) => self.becomes_nop(0),
            Verdict::Fail(error) if uring::nop_tells_results() => self.becomes_nop(-error),
            // The kernel's set is as ours: it finds the same error.
            Verdict::Fail(libc::EBADF) => self.names_nothing(),
            Verdict::Fail(_)
            | Verdict::Bypass
            | Verdict::Kernel(_)
            | Verdict::Counted(_)
            | Verdict::Young(_) => {}
        }
    }

    /// The kernel does it when its turn comes: it is about something that is the kernel's by then.
    fn control_later(&self) {
        let member = entry::member(&self.entry);
        match (table::get(self.entry.fd), table::get(member)) {
            (Slot::Internal, _) | (_, Slot::Internal) => self.names_nothing(),
            (_, Slot::Epoll(_)) if self.entry.len.cast_signed() != EPOLL_CTL_ADD => {}
            _ => return_one(member),
        }
    }

    /// To the program there is no such descriptor.
    fn names_nothing(&self) {
        let fd = -1;
        uring::overwrite(self.place, Sqe { fd, ..self.entry });
    }

    fn becomes_nop(&self, result: i32) {
        const INJECT_RESULT: u32 = 1;
        let entry = Sqe {
            opcode: entry::NOP,
            flags: self.entry.flags,
            fd: -1,
            len: result.cast_unsigned(),
            op_flags: if result == 0 { 0 } else { INJECT_RESULT },
            user_data: self.entry.user_data,
            personality: self.entry.personality,
            ..Sqe::default()
        };
        uring::overwrite(self.place, entry);
    }
}

/// Descriptors that the program puts into the io_uring's own table: from there they are used without being named.
pub fn return_files(files: *const i32, count: u32) {
    // The kernel has no larger tables.
    const MOST_FILES: u32 = 1 << 20;
    for at in 0..count.min(MOST_FILES) as usize {
        // SAFETY: any bytes are a number, and a bad place is found out.
        match unsafe { access::load(files.wrapping_add(at)) } {
            Some(fd) => return_one(fd),
            None => return,
        }
    }
}

fn return_one(fd: RawFd) {
    if !entry::must_return(fd) {
        return;
    }
    match table::get(fd) {
        // Whoever waits for it by an io_uring does not ask us first.
        Slot::Epoll(set) => epoll::only_by_kernel(set, fd, Rest::StandIn),
        Slot::Record(_) | Slot::Fresh | Slot::Young(_) => for_good::return_for_uring(fd),
        Slot::Uring(_) => end::is_watched(fd),
        Slot::Foreign | Slot::Internal | Slot::Listener => {}
    }
}
