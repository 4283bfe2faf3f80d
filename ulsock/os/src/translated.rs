//! What connection tracking tells anybody about a TCP socket: which address its connection was opened to. Kernel rules
//! may have led it to another one (DNAT, REDIRECT).
//!
//! Asked by both ends before they look for each other, and by the daemon of the host. It tells nothing of a translated
//! source: only CAP_NET_ADMIN may ask for that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use libc::c_int;

use super::getsockopt;

/// The address that the side that connected has called, by an established socket of either side and its own address.
/// `None`: this network namespace does not track the connection, as where no rule asks for it.
pub fn called(fd: BorrowedFd<'_>, local: &SocketAddr) -> Option<SocketAddr> {
    /// include/uapi/linux/netfilter_ipv4.h; IP6T_SO_ORIGINAL_DST has the same number.
    const SO_ORIGINAL_DST: c_int = 80;
    let level = match local.ip().to_canonical() {
        IpAddr::V4(_) => libc::SOL_IP,
        IpAddr::V6(_) => libc::SOL_IPV6,
    };
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    let length = getsockopt(fd, level, SO_ORIGINAL_DST, &mut bytes).ok()?;
    // What cannot be read is nobody's address, and so another one than ours.
    Some(read(&bytes[..length]).unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)))
}

/// Has the kernel led this accepted connection to another address than the one that was called?
pub fn is_redirected(fd: BorrowedFd<'_>, local: &SocketAddr) -> bool {
    let is_other = |called: SocketAddr| {
        (called.ip(), called.port()) != (local.ip().to_canonical(), local.port())
    };
    called(fd, local).is_some_and(is_other)
}

/// struct sockaddr_in or sockaddr_in6, by the family.
fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: IpAddr = match c_int::from(family) {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn addresses_are_read_or_are_none() {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..8].copy_from_slice(&[0, 80, 10, 0, 0, 1]);
        assert_eq!(read(&bytes[..16]), Some("10.0.0.1:80".parse().unwrap()));
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(read(&bytes), Some("[::1]:80".parse().unwrap()));
        for length in 0..24 {
            assert_eq!(read(&bytes[..length]), None);
        }
        assert_eq!(read(&[7; 28]), None, "no family that we know");
    }

    #[test]
    fn what_nobody_has_redirected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        for (end, local) in [
            (&client, client.peer_addr()),
            (&server, server.local_addr()),
        ] {
            let called = called(end.as_fd(), &end.local_addr().unwrap());
            assert!(called.is_none() || called == local.ok());
        }
        assert!(!is_redirected(
            server.as_fd(),
            &server.local_addr().unwrap()
        ));
    }
}
