//! What an entry of an io_uring is about: which of our descriptors it names, and in which way.

use libc::msghdr;
use os::access;
use os::uring::{Sqe, sqe};

use crate::state::process_group;
use crate::state::record::flag;
use crate::state::table::{self, Slot};
use crate::state::urings;

pub const NOP: u8 = 0;
const POLL_ADD: u8 = 6;
const POLL_REMOVE: u8 = 7;
pub const ACCEPT: u8 = 13;
const ASYNC_CANCEL: u8 = 14;
pub const CONNECT: u8 = 16;
const READ: u8 = 22;
const WRITE: u8 = 23;
const SEND: u8 = 26;
const RECV: u8 = 27;

/// Of an operation, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It names no descriptor, or none that it does anything to.
    Other,
    /// Works on the descriptor `fd`.
    Works,
    /// The same, with a message that may carry descriptors.
    Message,
    /// Works on a second one, too.
    Splice,
    Close,
    EpollCtl,
    /// Puts descriptors into the io_uring's own table.
    FilesUpdate,
    /// Newer than this library.
    Unknown,
}

/// SPLICE_F_FD_IN_FIXED: the second one is a number of the io_uring's own table.
const IN_IS_FIXED: u32 = 1 << 31;

pub fn kind(opcode: u8) -> Kind {
    KINDS[usize::from(opcode)]
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Unknown; 256];
    let mut opcode = 0;
    while opcode < 256 {
        kinds[opcode] = kind_of(opcode as u8);
        opcode += 1;
    }
    kinds
};

/// As enum io_uring_op has them, up to Linux 6.18.
const fn kind_of(opcode: u8) -> Kind {
    match opcode {
        // NOP, POLL_REMOVE, TIMEOUT, TIMEOUT_REMOVE, ASYNC_CANCEL, LINK_TIMEOUT.
        NOP | POLL_REMOVE | 11 | 12 | ASYNC_CANCEL | 15 => Kind::Other,
        // OPENAT, STATX, MADVISE, OPENAT2, PROVIDE_BUFFERS and REMOVE_BUFFERS (fd is a count).
        18 | 21 | 25 | 28 | 31 | 32 => Kind::Other,
        // RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT, MSG_RING, SETXATTR, GETXATTR, SOCKET (fd is a domain).
        35..=40 | 42 | 44 | 45 => Kind::Other,
        // WAITID, FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAITV (fd is a set of flags), FIXED_FD_INSTALL, PIPE.
        50..=54 | 62 => Kind::Other,
        // SENDMSG, SENDMSG_ZC.
        9 | 48 => Kind::Message,
        // SPLICE, TEE.
        30 | 33 => Kind::Splice,
        19 => Kind::Close,
        20 => Kind::FilesUpdate,
        29 => Kind::EpollCtl,
        0..=62 => Kind::Works,
        _ => Kind::Unknown,
    }
}

/// The descriptors that an entry works on, if they are in the process's table; -1 for those that are not.
pub fn named(entry: &Sqe) -> [i32; 2] {
    let first = match entry.flags & sqe::FIXED_FILE {
        0 => entry.fd,
        _ => -1,
    };
    let second = match kind(entry.opcode) {
        Kind::Splice if entry.op_flags & IN_IS_FIXED == 0 => entry.splice_fd_in,
        _ => -1,
    };
    [first, second]
}

/// The descriptor that EPOLL_CTL is about.
pub fn member(entry: &Sqe) -> i32 {
    entry.off as i32
}

/// What can be served, in its plainest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    Receive,
    Transmit,
    /// Waits once for these events.
    Poll(i16),
}

/// Is it of a kind that can be served? What it could have beside is zero.
pub fn plain(entry: &Sqe) -> Option<Plain> {
    const EVENTS: i16 = libc::POLLIN | libc::POLLPRI | libc::POLLOUT | libc::POLLRDHUP;
    let Sqe {
        opcode,
        off,
        op_flags,
        ..
    } = *entry;
    let moves = (1..=i32::MAX as u32).contains(&entry.len);
    let (plain, is_plain) = match opcode {
        RECV => (Plain::Receive, moves && off == 0 && op_flags == 0),
        SEND => {
            let flags = op_flags & !(libc::MSG_NOSIGNAL as u32);
            (Plain::Transmit, moves && off == 0 && flags == 0)
        }
        // A position in a stream means nothing, but the kernel checks it.
        READ => (
            Plain::Receive,
            moves && op_flags == 0 && off.cast_signed() >= -1,
        ),
        WRITE => (
            Plain::Transmit,
            moves && op_flags == 0 && off.cast_signed() >= -1,
        ),
        POLL_ADD => {
            let is_plain = entry.len == 0 && off == 0 && entry.addr == 0;
            (
                // The kernel always tells of the peer's end.
                Plain::Poll(op_flags as i16 | libc::POLLRDHUP),
                is_plain && op_flags & !(EVENTS as u32) == 0,
            )
        }
        _ => return None,
    };
    let nothing_else = Sqe {
        opcode,
        fd: entry.fd,
        off,
        addr: entry.addr,
        len: entry.len,
        op_flags,
        user_data: entry.user_data,
        ..Sqe::default()
    };
    (is_plain && *entry == nothing_else).then_some(plain)
}

/// Does it end others, or change them?
pub fn cancels(entry: &Sqe) -> bool {
    matches!(entry.opcode, ASYNC_CANCEL | POLL_REMOVE)
}

/// Which operation is ended.
#[derive(Clone, Copy)]
pub struct Cancelled {
    name: u64,
    only_poll: bool,
}

impl Cancelled {
    pub fn is(self, entry: &Sqe) -> bool {
        entry.user_data == self.name && (entry.opcode == POLL_ADD || !self.only_poll)
    }
}

/// Ends one, which it names, in the plainest form.
pub fn cancelled(entry: &Sqe) -> Option<Cancelled> {
    let plain = Sqe {
        opcode: entry.opcode,
        fd: entry.fd,
        addr: entry.addr,
        user_data: entry.user_data,
        ..Sqe::default()
    };
    (cancels(entry) && *entry == plain).then_some(Cancelled {
        name: entry.addr,
        only_poll: entry.opcode == POLL_REMOVE,
    })
}

/// The kernel never sends a signal for SEND.
pub fn send_flags(entry: &Sqe) -> i32 {
    match entry.opcode {
        WRITE => 0,
        _ => libc::MSG_NOSIGNAL,
    }
}

/// One that does nothing, and has this result.
pub fn nop(user_data: u64, result: i32) -> Sqe {
    const INJECT_RESULT: u32 = 1;
    Sqe {
        opcode: NOP,
        fd: -1,
        len: result.cast_unsigned(),
        op_flags: INJECT_RESULT,
        user_data,
        ..Sqe::default()
    }
}

/// Stands for one that is kept, and goes before the kernel comes: no program names a descriptor like this.
pub fn kept() -> Sqe {
    Sqe {
        opcode: NOP,
        fd: i32::MIN,
        user_data: u64::from_be_bytes(*b"ulsock.."),
        personality: u16::MAX,
        ..Sqe::default()
    }
}

/// One that does nothing, and of which nobody hears.
pub fn unheard() -> Sqe {
    Sqe {
        opcode: NOP,
        flags: sqe::CQE_SKIP_SUCCESS,
        fd: -1,
        ..Sqe::default()
    }
}

/// Closes a number of the process's, not of the io_uring's own table?
pub fn closes_number(entry: &Sqe) -> bool {
    entry.splice_fd_in == 0
}

/// An entry's first word: operation, flags and descriptor. Most entries need no second look.
#[derive(Clone, Copy)]
pub struct Beginning(pub u64);

impl Beginning {
    #[inline]
    fn fd(self) -> i32 {
        (self.0 >> 32) as i32
    }

    #[inline]
    pub fn flags(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Is it enough to know that it does not concern us?
    #[inline]
    pub fn is_enough(self) -> bool {
        match KINDS[usize::from(self.0 as u8)] {
            Kind::Other => true,
            Kind::Works => self.flags() & sqe::FIXED_FILE != 0 || !must_return(self.fd()),
            _ => false,
        }
    }
}

/// Has something to be done before the kernel takes this entry? Usually not, and that is found out at little cost.
#[inline]
pub fn concerns_us(entry: &Sqe) -> bool {
    let is_ours = |fd: i32| table::ours(fd).is_some();
    match kind(entry.opcode) {
        Kind::Other => false,
        Kind::Works | Kind::Splice => named(entry).into_iter().any(must_return),
        Kind::Message => named(entry).into_iter().any(must_return) || may_pass(entry),
        Kind::Close => closes_number(entry) && is_ours(entry.fd),
        Kind::EpollCtl => is_ours(entry.fd) || is_ours(member(entry)),
        Kind::FilesUpdate | Kind::Unknown => true,
    }
}

/// Is it something that must be the kernel's alone before an io_uring works on it, and is not yet?
#[inline]
pub fn must_return(fd: i32) -> bool {
    let Some(word) = table::attended(fd) else {
        return false;
    };
    match word.slot() {
        Slot::Foreign | Slot::Listener => false,
        Slot::Uring(_) => urings::any_is_served(),
        Slot::Internal | Slot::Fresh | Slot::Young(_) | Slot::Epoll(_) => true,
        Slot::Record(number) => {
            process_group::own().is_some_and(|family| !family.record(number).has(flag::BY_URING))
        }
    }
}

/// Has the message control data?
fn may_pass(entry: &Sqe) -> bool {
    let message = entry.addr as *const msghdr;
    // SAFETY: the place is only named, and a bad one is found out.
    let length = || unsafe { access::load_word((&raw const (*message).msg_controllen).cast()) };
    process_group::own().is_some() && length().is_some_and(|length| length != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_kind() {
        for (opcode, kind_of_it) in [
            (1, Kind::Works),
            (6, Kind::Works),
            (9, Kind::Message),
            (13, Kind::Works),
            (16, Kind::Works),
            (19, Kind::Close),
            (27, Kind::Works),
            (29, Kind::EpollCtl),
            (30, Kind::Splice),
            (34, Kind::Works),
            (41, Kind::Works),
            (45, Kind::Other),
            (46, Kind::Works),
            (47, Kind::Works),
            (49, Kind::Works),
            (55, Kind::Works),
            (59, Kind::Works),
            (61, Kind::Works),
            (63, Kind::Unknown),
        ] {
            assert_eq!(kind(opcode), kind_of_it, "{opcode}");
        }
    }

    #[test]
    fn descriptors_of_the_urings_own_table_are_not_named() {
        let mut entry = Sqe {
            opcode: 30,
            fd: 5,
            splice_fd_in: 6,
            ..Sqe::default()
        };
        assert_eq!(named(&entry), [5, 6]);
        entry.op_flags = IN_IS_FIXED;
        assert_eq!(named(&entry), [5, -1]);
        entry.flags = sqe::FIXED_FILE;
        assert_eq!(named(&entry), [-1, -1]);
        entry.opcode = 1;
        assert_eq!(named(&entry), [-1, -1]);
    }
}
