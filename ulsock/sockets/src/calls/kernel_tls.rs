//! What a program is told that asks the kernel to encrypt its stream (`TCP_ULP` "tls").
//!
//! Only the kernel's own stream can be encrypted there, and programs ask during the handshake, before there are rings: such a
//! connection would stay on the kernel for good. A kernel without the module answers ENOENT, and every TLS library then
//! encrypts itself. Connections that rings may carry are told so, for there it is faster; all others are the kernel's affair.

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use libc::{IPPROTO_TCP, c_int, c_void, socklen_t};

use crate::runtime::process;
use crate::state::process_group::record_of;
use crate::state::record::flag;
use os::access;
use os::tcp;

/// The name of the protocol, as programs write it: some count the zero at its end.
const TLS: [u8; 3] = *b"tls";

/// Shall this `setsockopt` be answered as by a kernel that has no TLS?
pub fn is_denied(fd: RawFd, option: (c_int, c_int), value: *const c_void, len: socklen_t) -> bool {
    option == (IPPROTO_TCP, libc::TCP_ULP)
        && !process::config().kernel_tls
        && is_tls(value.cast(), len as usize)
        && may_be_on_rings(fd)
}

fn may_be_on_rings(fd: RawFd) -> bool {
    let managed = record_of(fd).filter(|(.., record)| !record.has(flag::PINNED));
    managed.is_some_and(|(.., record)| {
        let ends = record.local().zip(record.peer()).or_else(|| ask(fd));
        let scope = &process::config().scope;
        ends.is_some_and(|(local, peer)| scope.check(Some(local), peer).is_ok())
    })
}

fn ask(fd: RawFd) -> Option<(SocketAddr, SocketAddr)> {
    // SAFETY: the program is calling with this number.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    Some((tcp::local_addr(socket).ok()?, tcp::peer_addr(socket).ok()?))
}

fn is_tls(value: *const u8, len: usize) -> bool {
    // SAFETY: any bits are a byte.
    let at = |n: usize| unsafe { access::load(value.wrapping_add(n)) };
    let mut name = (0..len.min(TLS.len() + 1)).map(at);
    TLS.iter().all(|byte| name.next() == Some(Some(*byte)))
        && name.next().is_none_or(|end| end == Some(0))
}

#[cfg(test)]
mod tests {
    use super::is_tls;

    #[test]
    fn the_name_as_programs_write_it() {
        let named = |name: &[u8]| is_tls(name.as_ptr(), name.len());
        assert!(named(b"tls"));
        assert!(named(b"tls\0"));
        assert!(named(b"tls\0rest"));
        assert!(!named(b"tlsx"));
        assert!(!named(b"tl"));
        assert!(!named(b""));
        assert!(!named(b"mptcp\0"));
    }

    #[test]
    fn a_bad_pointer_is_none() {
        assert!(!is_tls(std::ptr::null(), 4));
    }
}
