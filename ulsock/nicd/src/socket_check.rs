//! What a program shows is checked by the socket itself: is it a TCP connection, and the one that is meant?

use std::os::fd::BorrowedFd;

use rustix::net::sockopt;
use rustix::net::{SocketType, ipproto};

use super::peer_messages::Tuple;
use os::tcp;

/// include/net/tcp_states.h
const ESTABLISHED: u8 = 1;

/// The addresses of a socket that is an established connection, and has this cookie.
pub fn tuple_of(fd: BorrowedFd<'_>, cookie: u64) -> Option<Tuple> {
    let is_meant = is_tcp_with(fd, cookie) && tcp::info(fd).ok()?.state == ESTABLISHED;
    if !is_meant {
        return None;
    }
    let (local, remote) = (tcp::local_addr(fd).ok()?, tcp::peer_addr(fd).ok()?);
    Some(Tuple::new(local, remote))
}

/// Is it the TCP socket with this cookie?
pub fn is_tcp_with(fd: BorrowedFd<'_>, cookie: u64) -> bool {
    sockopt::socket_type(fd) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(fd) == Ok(Some(ipproto::TCP))
        && tcp::cookie(fd) == Ok(cookie)
}
