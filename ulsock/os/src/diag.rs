//! Who is at the other end of our connection, asked of the kernel by NETLINK_SOCK_DIAG.
//!
//! Called by both ends before they trust an offer or a claim. The kernel's word is the only proof of
//! identity that we have, so an answer counts only if every byte of it fits the question, and the socket is
//! ESTABLISHED: anybody can bind an IPv6 address of another host and connect from it, but no answer reaches him.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with,
};

use super::fds::Transient;
use super::tcp::Passed;

/// The socket at the other end of a connection of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherEnd {
    /// Its SO_COOKIE.
    pub cookie: u64,
    /// Who created it, as seen from our user namespace.
    pub uid: u32,
    /// Its inode number in the socket file system.
    pub inode: u32,
    state: u8,
}

/// include/net/tcp_states.h
const ESTABLISHED: u8 = 1;

/// Finds the established socket whose local address is `peer` and whose remote address is `local`.
///
/// `None`: it is not on this host (or not in this network namespace), or no process holds it, as
/// before accept and after close. The kernel then says uid 0, which must not pass for root's.
pub fn other_end(local: &SocketAddr, peer: &SocketAddr) -> io::Result<Option<OtherEnd>> {
    other_end_by(open()?.as_fd(), 1, local, peer)
}

/// The same in the network namespace of `fd`, a socket of this kind. Others may ask by it too:
/// `sequence` tells our answer from theirs.
pub fn other_end_by(
    fd: BorrowedFd<'_>,
    sequence: u32,
    local: &SocketAddr,
    peer: &SocketAddr,
) -> io::Result<Option<OtherEnd>> {
    let question = Question::new(peer, local, sequence).ok_or(Errno::INVAL)?;
    let mut answer = [0; 1024];
    let end = question.judge(ask(fd, &question.encode(), sequence, &mut answer)?)?;
    Ok(end.filter(|end| end.state == ESTABLISHED))
}

/// What has gone through the connection between these two, if there is one in this network namespace.
pub fn passed(local: &SocketAddr, peer: &SocketAddr) -> io::Result<Option<Passed>> {
    /// idiag_ext: tell INET_DIAG_INFO, too.
    const INFO: u16 = 2;
    let question = Question::new(local, peer, 1).ok_or(Errno::INVAL)?;
    let mut request = question.encode();
    request[18] = 1 << (INFO - 1);
    let mut answer = [0; 1024];
    let answer = ask(open()?.as_fd(), &request, 1, &mut answer)?;
    if question.judge(answer)?.is_none() {
        return Ok(None);
    }
    let socket = body(answer, SOCKET)?.unwrap_or_default();
    Ok(attribute(socket.get(SOCKET..).unwrap_or_default(), INFO).and_then(Passed::read))
}

/// The payload of the first attribute of a kind (struct nlattr: length, kind; each begins at a multiple of four).
pub(super) fn attribute(mut rest: &[u8], kind: u16) -> Option<&[u8]> {
    const HEAD: usize = 4;
    loop {
        let length = usize::from(u16_at(rest, 0).ok()?);
        let found = u16_at(rest, 2).ok()?;
        let payload = rest.get(HEAD..length)?;
        if found == kind {
            return Some(payload);
        }
        rest = rest.get(length.next_multiple_of(HEAD)..)?;
    }
}

/// A socket to ask by, for the network namespace that we are in.
pub fn open() -> io::Result<Transient> {
    socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )
    .map(Transient::new)
}

/// The kernel's answer to a request with this sequence number.
///
/// It answers inside `sendto`, so the answer is there or never comes. Where others hold the socket
/// too, theirs may lie before ours; nobody but the kernel has the port 0.
pub(super) fn ask<'a>(
    fd: BorrowedFd<'_>,
    request: &[u8],
    sequence: u32,
    answer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    /// Datagrams that are read in search of the answer.
    const MOST_READ: usize = 8;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(fd, request, SendFlags::DONTWAIT, &kernel)?;
    for _ in 0..MOST_READ {
        let (len, _, from) = recvfrom(fd, &mut *answer, RecvFlags::DONTWAIT)?;
        let from: SocketAddrNetlink = from.ok_or(Errno::BADMSG)?.try_into()?;
        let bytes = answer.get(..len).ok_or(Errno::BADMSG)?;
        if from.pid() == 0 && u32_at(bytes, 8) == Ok(sequence) {
            return answer.get(..len).ok_or(Errno::BADMSG);
        }
    }
    Err(Errno::BADMSG)
}

/// struct nlmsghdr (include/uapi/linux/netlink.h) of a request for one socket.
pub(super) fn header(length: usize, sequence: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[0..4].copy_from_slice(&(length as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

/// Whether an answer describes a socket, and then the bytes of it; `None` if there is no such socket.
pub(super) fn body(answer: &[u8], least: usize) -> io::Result<Option<&[u8]>> {
    let len = u32_at(answer, 0)? as usize;
    match u16_at(answer, 4)? {
        _ if len > answer.len() => Err(Errno::BADMSG),
        SOCK_DIAG_BY_FAMILY if len >= HEADER + least => Ok(answer.get(HEADER..len)),
        NLMSG_ERROR => match (u32_at(answer, HEADER)? as i32).wrapping_neg() {
            libc::ENOENT => Ok(None),
            errno @ 1..=4095 => Err(Errno::from_raw_os_error(errno)),
            _ => Err(Errno::BADMSG),
        },
        _ => Err(Errno::BADMSG),
    }
}

pub(super) const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// Bytes of struct inet_diag_msg.
const SOCKET: usize = 72;

/// The wanted socket's addresses, both v4 or both v6; v4-mapped ones count as v4, because that is
/// how the kernel hashes them (inet_diag_find_one_icsk, net/ipv4/inet_diag.c).
struct Question {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    interface: u32,
    sequence: u32,
}

impl Question {
    fn new(local: &SocketAddr, remote: &SocketAddr, sequence: u32) -> Option<Question> {
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
            sequence,
        })
    }

    /// struct nlmsghdr and struct inet_diag_req_v2 (include/uapi/linux/{netlink,inet_diag}.h).
    fn encode(&self) -> [u8; REQUEST] {
        let family = match self.local.0 {
            IpAddr::V4(_) => libc::AF_INET,
            IpAddr::V6(_) => libc::AF_INET6,
        };
        let mut bytes = [0; REQUEST];
        bytes[..HEADER].copy_from_slice(&header(REQUEST, self.sequence));
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
        let socket = body(answer, SOCKET)?;
        socket.map_or(Ok(None), |socket| self.read_socket(socket))
    }

    /// struct inet_diag_msg. The kernel's lookup falls back to a listening socket when there is no
    /// such connection: the addresses tell.
    fn read_socket(&self, socket: &[u8]) -> io::Result<Option<OtherEnd>> {
        let [family, state] = array(socket, 0)?;
        let family = i32::from(family);
        let local = (address(socket, 8, family)?, port(socket, 4)?);
        let remote = (address(socket, 24, family)?, port(socket, 6)?);
        let end = OtherEnd {
            cookie: u64_at(socket, 44)?,
            uid: u32_at(socket, 64)?,
            inode: u32_at(socket, 68)?,
            state,
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

/// A cookie, in two halves.
pub(super) fn u64_at(answer: &[u8], at: usize) -> io::Result<u64> {
    let (low, high) = (u32_at(answer, at)?, u32_at(answer, at + 4)?);
    Ok(u64::from(low) | u64::from(high) << 32)
}

pub(super) fn u32_at(answer: &[u8], at: usize) -> io::Result<u32> {
    array(answer, at).map(u32::from_ne_bytes)
}

pub(super) fn u16_at(answer: &[u8], at: usize) -> io::Result<u16> {
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
    use crate::tcp;
    use rustix::net::{bind, connect, sockopt};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

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
    fn tells_what_has_passed() {
        use std::io::{Read, Write};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(&[1; 30]).unwrap();
        client.read_exact(&mut [0; 30]).unwrap();
        let by_diag = |fd: BorrowedFd<'_>| {
            passed(&tcp::local_addr(fd)?, &tcp::peer_addr(fd)?).map(Option::unwrap)
        };
        for (fd, sent, received) in [(client.as_fd(), 1000, 30), (server.as_fd(), 30, 1000)] {
            let known = tcp::passed(fd).unwrap();
            assert_eq!((known.sent, known.received), (sent, received));
            assert!(known.packets_sent > 0 && known.packets_received > 0);
            assert_eq!(by_diag(fd), Ok(known));
        }
        // A FIN is no byte.
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        assert_eq!(tcp::passed(client.as_fd()).unwrap().sent, 1000);
        assert_eq!(tcp::passed(server.as_fd()).unwrap().received, 1000);
    }

    #[test]
    fn attributes_end_somewhere() {
        let two = [5, 0, 1, 0, 9, 0, 0, 0, 6, 0, 2, 0, 7, 8];
        assert_eq!(attribute(&two, 1), Some(&[9][..]));
        assert_eq!(attribute(&two, 2), Some(&[7, 8][..]));
        assert_eq!(attribute(&two, 3), None);
        assert_eq!(attribute(&two[..13], 2), None, "cut off");
        assert_eq!(attribute(&[0; 64], 1), None, "no length");
        assert_eq!(attribute(&[3, 0, 1, 0], 1), None, "shorter than its head");
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

    /// Binds an address that no interface of this host has, which takes no privilege.
    fn bound_to_another_host() -> OwnedFd {
        let kind = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, kind, None).unwrap();
        sockopt::set_ipv6_freebind(&socket, true).unwrap();
        let elsewhere: SocketAddr = "[2001:db8::1]:0".parse().unwrap();
        bind(&socket, &elsewhere).unwrap();
        socket
    }

    #[test]
    fn a_socket_that_nobody_has_answered_is_no_end() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let here = listener.local_addr().unwrap();
        let stranger = bound_to_another_host();
        let begun = connect(&stranger, &here);
        assert_eq!(begun, Err(Errno::INPROGRESS));
        let there = tcp::local_addr(stranger.as_fd()).unwrap();
        let question = Question::new(&there, &here, 1).unwrap();
        let mut answer = [0; 1024];
        let answer = ask(open().unwrap().as_fd(), &question.encode(), 1, &mut answer).unwrap();
        assert!(
            question.judge(answer).unwrap().is_some(),
            "the kernel knows it"
        );
        assert_eq!(other_end(&here, &there), Ok(None));
    }

    #[test]
    fn nonsense_answers_are_errors() {
        let addr = "127.0.0.1:1".parse().unwrap();
        let question = Question::new(&addr, &addr, 1).unwrap();
        assert_eq!(question.judge(&[]), Err(Errno::BADMSG));
        let mut answer = [0; HEADER + SOCKET];
        for len in [0, HEADER as u8, answer.len() as u8, u8::MAX] {
            for kind in 0..=u8::MAX {
                (answer[0], answer[4]) = (len, kind);
                assert_eq!(question.judge(&answer), Err(Errno::BADMSG));
            }
        }
    }
}
