//! Whom a receive names as the sender: TCP nobody, a Unix stream socket its peer.

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};

use crate::conn;
use crate::state::process_group::record_of;
use crate::state::table::{self, Slot};
use os::{access, raw};

/// Is it a Unix connection of ours?
#[inline]
pub fn is_unix(fd: c_int) -> bool {
    match table::get(fd) {
        Slot::Young(_) => true,
        _ => record_of(fd).is_some_and(|(_, _, record)| record.is_unix()),
    }
}

/// After a receive of `n` bytes, of `asked`: writes the sender's name, as far as there is `room`, and its length. `false` if that
/// cannot be written.
pub(super) fn tell(
    fd: c_int,
    (asked, n): (usize, isize),
    name: *mut c_void,
    room: socklen_t,
    length: *mut socklen_t,
) -> bool {
    // Who asks for nothing is told whose bytes are there.
    let has_sender = n > 0 || asked == 0 && has_bytes(fd);
    if !is_unix(fd) || !has_sender {
        return access::store(length, 0);
    }
    // SAFETY: the program is calling with this number.
    let (bytes, len) = name_of_peer(unsafe { BorrowedFd::borrow_raw(fd) });
    let copied = len.min(room) as usize;
    // SAFETY: `bytes` holds as much; memory of the program's that is bad makes the copy fail.
    unsafe { access::copy(name.cast(), bytes.as_ptr(), copied) && access::store(length, len) }
}

fn has_bytes(fd: c_int) -> bool {
    let conn = conn::managed(fd).and_then(conn::Conn::enter);
    conn.and_then(|conn| conn.readable_bytes())
        .is_some_and(|bytes| bytes > 0)
}

/// A peer that has bound no name has none.
fn name_of_peer(socket: BorrowedFd<'_>) -> ([u8; size_of::<libc::sockaddr_un>()], socklen_t) {
    let mut bytes = [0; size_of::<libc::sockaddr_un>()];
    let mut len = bytes.len() as socklen_t;
    let args = [
        socket.as_raw_fd() as usize,
        bytes.as_mut_ptr() as usize,
        &raw mut len as usize,
    ];
    // SAFETY: the kernel writes a name of at most `len` bytes.
    let asked = unsafe { raw::syscall(libc::SYS_getpeername, args) };
    let has_name = asked.is_ok() && len as usize > size_of::<libc::sa_family_t>();
    (bytes, if has_name { len } else { 0 })
}
