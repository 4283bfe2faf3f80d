//! Who is at the other end of our connection, asked of the kernel by NETLINK_SOCK_DIAG.
//!
//! Called by both ends before they trust an offer or a claim. The kernel's word is the only proof of
//! identity that we have, so an answer counts only if every byte of it fits the question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    recvfrom, sendto, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use super::fds::Transient;

/// The socket at the other end of a connection of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherEnd {
    /// Its SO_COOKIE.
    pub cookie: u64,
    /// Who created it, as seen from our user namespace.
    pub uid: u32,
    /// Its inode number in the socket file system.
    pub inode: u32,
}

/// Finds the socket whose local address is `peer` and whose remote address is `local`.
///
/// `None`: it is not on this host (or not in this network namespace), or no process holds it, as
/// before accept and after close. The kernel then says uid 0, which must not pass for root's.
pub fn other_end(local: &SocketAddr, peer: &SocketAddr) -> io::Result<Option<OtherEnd>> {
    let question = Question::new(peer, local).ok_or(Errno::INVAL)?;
    let fd = Transient::new(socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?);
    let request = question.encode();
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&fd, &request, SendFlags::DONTWAIT, &kernel)?;
    let mut answer = [0; 1024];
    let len = receive(fd.as_fd(), &mut answer)?;
    question.judge(answer.get(..len).ok_or(Errno::BADMSG)?)
}

/// The kernel answers inside `sendto`, so the answer is there or never comes.
fn receive(fd: BorrowedFd<'_>, answer: &mut [u8]) -> io::Result<usize> {
    let (len, _, from) = recvfrom(fd, answer, RecvFlags::DONTWAIT)?;
    let from: SocketAddrNetlink = from.ok_or(Errno::BADMSG)?.try_into()?;
    if from.pid() == 0 {
        Ok(len)
    } else {
        Err(Errno::BADMSG)
    }
}

const SEQUENCE: u32 = 1;
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const ANSWER: usize = HEADER + 72;

/// The wanted socket's addresses, both v4 or both v6; v4-mapped ones count as v4, because that is
/// how the kernel hashes them (inet_diag_find_one_icsk, net/ipv4/inet_diag.c).
struct Question {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    interface: u32,
}

impl Question {
    fn new(local: &SocketAddr, remote: &SocketAddr) -> Option<Question> {
        let plain = |addr: &SocketAddr| (addr.ip().to_canonical(), addr.port());
        let scope = |addr: &SocketAddr| match addr {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(addr) => addr.scope_id(),
        };
        let (local_end, remote_end) = (plain(local), plain(remote));
        (local_end.0.is_ipv4() == remote_end.0.is_ipv4()).then(|| Question {
            local: local_end,
            remote: remote_end,
            // A link-local connection is bound to its interface and found only with it.
            interface: scope(local).max(scope(remote)),
        })
    }

    /// struct nlmsghdr and struct inet_diag_req_v2 (include/uapi/linux/{netlink,inet_diag}.h).
    fn encode(&self) -> [u8; REQUEST] {
        let family = match self.local.0 {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        };
        let mut bytes = [0; REQUEST];
        bytes[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        bytes[8..12].copy_from_slice(&SEQUENCE.to_ne_bytes());
        bytes[16] = family as u8;
        bytes[17] = libc::IPPROTO_TCP as u8;
        bytes[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[24..26].copy_from_slice(&self.local.1.to_be_bytes());
        bytes[26..28].copy_from_slice(&self.remote.1.to_be_bytes());
        bytes[28..44].copy_from_slice(&padded(self.local.0));
        bytes[44..60].copy_from_slice(&padded(self.remote.0));
        bytes[60..64].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[64..72].copy_from_slice(&INET_DIAG_NOCOOKIE.to_ne_bytes());
        bytes
    }

    fn judge(&self, answer: &[u8]) -> io::Result<Option<OtherEnd>> {
        let len = u32_at(answer, 0)? as usize;
        if len > answer.len() || u32_at(answer, 8)? != SEQUENCE {
            return Err(Errno::BADMSG);
        }
        match u16_at(answer, 4)? {
            SOCK_DIAG_BY_FAMILY if len >= ANSWER => self.read_socket(answer),
            NLMSG_ERROR => match (u32_at(answer, HEADER)? as i32).wrapping_neg() {
                libc::ENOENT => Ok(None),
                errno @ 1..=4095 => Err(Errno::from_raw_os_error(errno)),
                _ => Err(Errno::BADMSG),
            },
            _ => Err(Errno::BADMSG),
        }
    }

    /// struct inet_diag_msg. The kernel's lookup falls back to a listening socket when there is no
    /// such connection: the addresses tell.
    fn read_socket(&self, answer: &[u8]) -> io::Result<Option<OtherEnd>> {
        let family = i32::from(*answer.get(HEADER).ok_or(Errno::BADMSG)?);
        let local = (address(answer, 24, family)?, port(answer, 20)?);
        let remote = (address(answer, 40, family)?, port(answer, 22)?);
        let end = OtherEnd {
            cookie: u64::from(u32_at(answer, 60)?) | u64::from(u32_at(answer, 64)?) << 32,
            uid: u32_at(answer, 80)?,
            inode: u32_at(answer, 84)?,
        };
        let found = local == self.local && remote == self.remote && end.inode != 0;
        Ok(found.then_some(end))
    }
}

/// include/uapi/linux/sock_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Both halves of the cookie all ones: do not compare it.
const INET_DIAG_NOCOOKIE: u64 = u64::MAX;
const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;

/// An address in the kernel's four words; v4 uses the first.
fn padded(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}

fn array<const N: usize>(answer: &[u8], at: usize) -> io::Result<[u8; N]> {
    let bytes = answer.get(at..at + N).ok_or(Errno::BADMSG)?;
    bytes.try_into().map_err(|_| Errno::BADMSG)
}

fn u32_at(answer: &[u8], at: usize) -> io::Result<u32> {
    array(answer, at).map(u32::from_ne_bytes)
}

fn u16_at(answer: &[u8], at: usize) -> io::Result<u16> {
    array(answer, at).map(u16::from_ne_bytes)
}

fn port(answer: &[u8], at: usize) -> io::Result<u16> {
    array(answer, at).map(u16::from_be_bytes)
}

fn address(answer: &[u8], at: usize, family: i32) -> io::Result<IpAddr> {
    match family {
        libc::AF_INET => Ok(Ipv4Addr::from(array::<4>(answer, at)?).into()),
        libc::AF_INET6 => Ok(Ipv6Addr::from(array::<16>(answer, at)?).to_canonical()),
        _ => Err(Errno::BADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::tcp;
    use std::net::{TcpListener, TcpStream};

    fn ends(fd: BorrowedFd<'_>) -> io::Result<Option<OtherEnd>> {
        other_end(&tcp::local_addr(fd)?, &tcp::peer_addr(fd)?)
    }

    /// Each end finds the other.
    fn mutual(listen: &str, connect: &str) {
        let listener = TcpListener::bind(listen).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ip: IpAddr = connect.parse().unwrap();
        let client = TcpStream::connect((ip, port)).unwrap();
        let server = listener.accept().unwrap().0;
        let uid = rustix::process::geteuid().as_raw();
        for (here, there) in [(&client, &server), (&server, &client)] {
            let end = ends(here.as_fd()).unwrap().expect("the other end");
            assert_eq!(end.cookie, tcp::cookie(there.as_fd()).unwrap());
            assert_eq!(end.uid, uid);
            assert_ne!(end.inode, 0);
        }
    }

    #[test]
    fn finds_v4() {
        mutual("127.0.0.1:0", "127.0.0.1");
    }

    #[test]
    fn finds_v6() {
        mutual("[::1]:0", "::1");
    }

    #[test]
    fn finds_mapped_on_either_end_and_on_both() {
        mutual("[::]:0", "127.0.0.1");
        mutual("127.0.0.1:0", "::ffff:127.0.0.1");
        mutual("[::]:0", "::ffff:127.0.0.1");
    }

    #[test]
    fn nobody_there_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(other_end(&nobody, &server), Ok(None), "only a listener");
        assert_eq!(other_end(&server, &nobody), Ok(None));
        let client = TcpStream::connect(server).unwrap();
        assert_eq!(ends(client.as_fd()), Ok(None), "not accepted yet");
    }

    #[test]
    fn nonsense_answers_are_errors() {
        let addr = "127.0.0.1:1".parse().unwrap();
        let question = Question::new(&addr, &addr).unwrap();
        assert_eq!(question.judge(&[]), Err(Errno::BADMSG));
        let mut answer = [0; ANSWER];
        answer[8] = 1;
        for len in [0, HEADER as u8, ANSWER as u8, u8::MAX] {
            for kind in 0..=u8::MAX {
                (answer[0], answer[4]) = (len, kind);
                assert_eq!(question.judge(&answer), Err(Errno::BADMSG));
            }
        }
    }
}
