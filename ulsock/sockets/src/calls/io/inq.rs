//! TCP_INQ: with it, each `recvmsg` tells how many bytes are left, as control data.
//!
//! As tcp_inq_hint in net/ipv4/tcp.c: the bytes that are left, and one more once the peer's FIN has arrived, so that the
//! program goes on reading until it has seen the end. Told after a receive that did not fail, also one that only peeks.

use std::os::fd::{BorrowedFd, RawFd};

use libc::{IPPROTO_TCP, c_int, cmsghdr};

use crate::conn::Conn;
use crate::conn::buffers::ControlData;
use crate::conn::managed;
use crate::conn::socket_options::{TCP_INQ, inq_is_used};
use crate::state::process_group::record_of;
use crate::state::record::flag;
use os;
use os::access;
use os::tcp;

/// For a socket that takes the place of another.
pub fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let mut value = [0; 4];
    let asked = os::getsockopt(from, IPPROTO_TCP, TCP_INQ, &mut value);
    if asked.is_ok() && value != [0; 4] {
        // Without it the program is told nothing more than by an older kernel.
        let _ = os::setsockopt(to, IPPROTO_TCP, TCP_INQ, &value);
    }
}

/// After a receive of ours that did not fail: the kernel's count, if it wrote one, is of its own bytes only.
#[inline]
pub(super) fn tell(fd: RawFd, control: &mut ControlData) {
    if inq_is_used() {
        tell_if_asked(fd, control);
    }
}

#[cold]
fn tell_if_asked(fd: RawFd, control: &mut ControlData) {
    if !record_of(fd).is_some_and(|(_, _, record)| record.has(flag::INQ)) {
        return;
    }
    let left = left(fd).min(c_int::MAX as u64) as c_int;
    control.flags &= !libc::MSG_CTRUNC;
    control.written = 0;
    put(control, left);
}

/// Bytes that are left, and the end as one more.
fn left(fd: RawFd) -> u64 {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let conn = managed(fd).and_then(Conn::enter);
    let bytes = conn.as_ref().and_then(Conn::readable_bytes);
    let bytes = bytes.unwrap_or_else(|| tcp::inq(socket).map_or(0, u64::from));
    let told = conn.is_some_and(|conn| conn.is_nic() && conn.record.has(flag::PEER_FIN));
    bytes + u64::from(told || tcp::info(socket).is_ok_and(|info| info.has_fin()))
}

/// As put_cmsg in net/core/scm.c: what does not fit is cut off.
fn put(control: &mut ControlData, value: c_int) {
    const HEAD: usize = size_of::<cmsghdr>();
    const LEN: usize = HEAD + size_of::<c_int>();
    // Behind it is room up to the next word.
    const SPACE: usize = LEN.next_multiple_of(size_of::<usize>());
    if control.at.is_null() || control.len < HEAD {
        control.flags |= libc::MSG_CTRUNC;
        return;
    }
    let len = LEN.min(control.len);
    if len < LEN {
        control.flags |= libc::MSG_CTRUNC;
    }
    let head = cmsghdr {
        cmsg_len: len,
        cmsg_level: IPPROTO_TCP,
        cmsg_type: TCP_INQ,
    };
    let (bytes, data) = (
        value.to_ne_bytes(),
        control.at.cast::<u8>().wrapping_add(HEAD),
    );
    // SAFETY: as many bytes of ours as there are; the program's memory may be bad.
    let told = access::store(control.at.cast(), head)
        && unsafe { access::copy(data, bytes.as_ptr(), len - HEAD) };
    if !told {
        return;
    }
    control.written = SPACE.min(control.len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_into(room: &mut [u8]) -> ControlData {
        let mut control = ControlData {
            at: room.as_mut_ptr().cast(),
            len: room.len(),
            written: 0,
            flags: 0,
            asked: 0,
        };
        put(&mut control, 77);
        control
    }

    #[test]
    fn a_count_that_does_not_fit_is_cut_off() {
        let told = |len: usize| {
            let mut room = [0; 64];
            let control = put_into(&mut room[..len]);
            (control.written, control.flags == libc::MSG_CTRUNC, room[16])
        };
        assert_eq!(told(0), (0, true, 0));
        assert_eq!(told(15), (0, true, 0));
        assert_eq!(told(16), (16, true, 0));
        assert_eq!(told(17), (17, true, 77));
        assert_eq!(told(20), (20, false, 77));
        assert_eq!(told(24), (24, false, 77));
        assert_eq!(told(64), (24, false, 77));
    }
}
