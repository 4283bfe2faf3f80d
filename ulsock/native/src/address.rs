//! Addresses as `api` wants them, which is as libc has them.

use std::net::SocketAddr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

pub enum RawAddress {
    V4(sockaddr_in),
    V6(sockaddr_in6),
}

impl RawAddress {
    pub fn new(address: &SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(v4) => RawAddress::V4(sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => RawAddress::V6(sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }

    pub fn parts(&self) -> (*const sockaddr, socklen_t) {
        match self {
            RawAddress::V4(v4) => (std::ptr::from_ref(v4).cast(), size_of_val(v4) as socklen_t),
            RawAddress::V6(v6) => (std::ptr::from_ref(v6).cast(), size_of_val(v6) as socklen_t),
        }
    }
}
