//! How a Unix stream socket gets its record: connected, accepted, or one of a pair. What moves through it is counted from
//! then on; one whose birth was not seen has no record, and stays on the kernel.

use std::os::fd::{BorrowedFd, RawFd};

use libc::{c_int, sa_family_t, sockaddr, socklen_t};

use super::{Far, become_connection, begin, young};
use crate::calls::descriptors::fd_opened;
use crate::runtime::process;
use crate::runtime::signal::fault;
use crate::state::process_group::ProcessGroup;
use crate::state::record::Role;
use crate::state::table::Slot;
use crate::state::young::{CONNECTING, NONBLOCK};
use os::{access, unix};
use shm::order;

/// What all pairs have in common, for the history.
const PAIRS: u32 = u32::MAX >> 1;

/// Is a socket of these kinds one that may leave the kernel?
#[inline]
pub(super) fn is_ours(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let stream = domain == libc::AF_UNIX && kind == libc::SOCK_STREAM;
    stream && matches!(protocol, 0 | libc::PF_UNIX) && process::config().unix
}

pub(super) fn is_ours_by_kernel(socket: BorrowedFd<'_>) -> bool {
    process::config().unix && unix::is_stream(socket)
}

/// A socket that was accepted.
pub(super) fn accepted(socket: BorrowedFd<'_>) -> Option<Far> {
    is_ours_by_kernel(socket).then_some(Far::Unix)
}

/// The same: it needs no record yet.
pub(super) fn accepted_young(listener: RawFd, fd: RawFd, nonblock: bool) -> bool {
    let facts = if nonblock { NONBLOCK } else { 0 };
    young::begin(fd, Role::Accepted, facts, listener as u32, Slot::Foreign)
}

/// Before a `connect` of a socket without a record; whether it goes without one. It is counted before it can be connected, so
/// that who receives or polls meanwhile is, too.
///
/// # Safety
/// As libc's `connect`.
pub(super) unsafe fn connecting(fd: RawFd, addr: *const sockaddr, len: socklen_t) -> bool {
    fault::catch();
    // SAFETY: any bytes are a family.
    let family = unsafe { access::load(addr.cast::<sa_family_t>()) };
    if (len as usize) < size_of::<sa_family_t>() || family != Some(libc::AF_UNIX as sa_family_t) {
        return false;
    }
    // SAFETY: as the caller promises; a bad pointer is found out.
    let name = unsafe { hash(addr, len as usize) };
    young::begin(fd, Role::Connected, CONNECTING, name, Slot::Fresh)
}

/// After a successful `connect` to a path or an abstract name.
///
/// # Safety
/// `addr` has `len` bytes.
pub(super) unsafe fn connected(
    family: &'static ProcessGroup,
    number: u32,
    fd: RawFd,
    addr: *const sockaddr,
    len: socklen_t,
) {
    order::spoke_by_kernel();
    // SAFETY: the caller says that it has so many bytes.
    let name = unsafe { hash(addr, len as usize) };
    become_connection(family, number, fd, Far::Unix, Role::Connected, name);
}

/// Connections to one name are likely to be alike. Behind the end of a path lies anything.
///
/// # Safety
/// `name` has `len` bytes, and a bad pointer is caught.
unsafe fn hash(name: *const sockaddr, len: usize) -> u32 {
    const WORD: usize = size_of::<u64>();
    /// The longest that the kernel takes.
    const MOST: usize = size_of::<libc::sockaddr_un>() - size_of::<sa_family_t>();
    /// The parameter of FNV-1a for 64 bits.
    const PRIME: u64 = 0x100_0000_01b3;
    let len = len.saturating_sub(size_of::<sa_family_t>()).min(MOST);
    let place = name.cast::<u8>().wrapping_add(size_of::<sa_family_t>());
    let mut hash = 0;
    let mut is_path = true;
    for at in (0..len).step_by(WORD) {
        // SAFETY: the caller says that so many bytes are there.
        let word = unsafe { word_at(place.wrapping_add(at), len - at) };
        is_path &= at > 0 || word & 0xff != 0;
        let end = first_zero(word).filter(|_| is_path);
        let mask = end.map_or(u64::MAX, |bits| (1 << bits) - 1);
        hash = (hash ^ (word & mask)).wrapping_mul(PRIME);
        if end.is_some() {
            break;
        }
    }
    (hash >> 32) as u32 & PAIRS
}

/// At most eight bytes as a number; those that are not there, or cannot be read, are zero.
///
/// # Safety
/// `at` has `len` bytes, and a bad pointer is caught.
unsafe fn word_at(at: *const u8, len: usize) -> u64 {
    let mut word = 0_u64;
    // SAFETY: the caller's promise; of our own side there is room.
    unsafe {
        if len >= size_of::<u64>() {
            return access::load_word(at.cast()).unwrap_or(0);
        }
        access::copy((&raw mut word).cast(), at, len);
    }
    word
}

/// Where the first byte that is zero begins, in bits.
fn first_zero(word: u64) -> Option<u32> {
    const ONES: u64 = u64::MAX / 0xff;
    // The highest bit of each byte that is zero; of the first such byte it is right.
    let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
    (zeros != 0).then(|| zeros.trailing_zeros() / 8 * 8)
}

/// After a successful `socketpair`: its ends know each other from birth. The first one makes the offer.
pub fn pair_opened(pair: [RawFd; 2], domain: c_int, kind: c_int, protocol: c_int) {
    pair.into_iter().for_each(fd_opened);
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    if process::is_on() && is_ours(domain, kind, protocol) {
        // Calls look at memory that the program names.
        fault::catch();
        for (fd, role) in pair.into_iter().zip([Role::Connected, Role::Accepted]) {
            if !young::begin(fd, role, 0, PAIRS, Slot::Foreign) {
                begin(fd, Far::Twin, role, PAIRS);
            }
        }
    }
}
