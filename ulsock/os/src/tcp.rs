//! What the kernel knows about one TCP socket: identity, addresses, byte counts, options.
//!
//! Called by the connection and the carrier switch, also from inside hooks of the very same calls;
//! it only ever asks, never changes the socket.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, socklen_t};
use rustix::io::{self, Errno};
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{ipproto, sockopt};

use super::{getsockopt, raw};

/// asm-generic/socket.h; libc does not name it on every target.
const SO_NETNS_COOKIE: c_int = 71;
/// linux/sockios.h gives SIOCOUTQ and SIOCINQ the numbers of TIOCOUTQ and FIONREAD.
const SIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;
/// linux/sockios.h
const SIOCOUTQNSD: Opcode = 0x894b;
const SIOCINQ: Opcode = libc::FIONREAD as Opcode;
const SIOCATMARK: Opcode = 0x8905;

/// Identity of the socket on this host, never reused.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    sockopt::socket_cookie(fd)
}

/// Is it a TCP socket, and nothing like it?
pub fn is_tcp(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_protocol(fd) == Ok(Some(ipproto::TCP))
}

/// Identity of the network namespace that the socket lives in.
pub fn netns_cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes = [0; 8];
    exactly(
        getsockopt(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut bytes)?,
        8,
    )?;
    Ok(u64::from_ne_bytes(bytes))
}

// struct tcp_info, include/uapi/linux/tcp.h: 8 bytes, 24 u32, two pacing rates, then
// tcpi_bytes_acked and tcpi_bytes_received (since Linux 4.1).
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const DATA_SEGS_IN: usize = 152;
const BYTES_SENT: usize = 200;
const BYTES_RETRANS: usize = 208;

/// The part of TCP_INFO that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// include/net/tcp_states.h: 1 is ESTABLISHED.
    pub state: u8,
    /// Includes the SYN on the side that connected, and an acknowledged FIN.
    pub bytes_acked: u64,
    /// Includes a received FIN.
    pub bytes_received: u64,
}

impl Info {
    /// Has the peer's FIN arrived? A socket that is closed altogether has had it, unless it was reset.
    pub fn has_fin(&self) -> bool {
        const CLOSE: u8 = 7;
        self.state == CLOSE || fins(self.state).1 == 1
    }
}

/// Reads TCP_INFO.
pub fn info(fd: BorrowedFd<'_>) -> io::Result<Info> {
    let mut bytes = [0; 136];
    let len = getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    exactly(len, bytes.len())?;
    Ok(Info {
        state: bytes[0],
        bytes_acked: word(&bytes, BYTES_ACKED),
        bytes_received: word(&bytes, BYTES_RECEIVED),
    })
}

/// Packets with data that have come and gone: `tcpi_data_segs_in`, `tcpi_data_segs_out` (since Linux 4.6).
pub fn data_packets(fd: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut bytes = [0; 160];
    let len = getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    exactly(len, bytes.len())?;
    let both = word(&bytes, DATA_SEGS_IN).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([both[at], both[at + 1], both[at + 2], both[at + 3]]);
    Ok((half(0), half(4)))
}

/// What has gone through a socket, by TCP_INFO (as of Linux 4.19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that the program has written, and that have come.
    pub sent: u64,
    pub received: u64,
    /// Packets with data.
    pub packets_sent: u32,
    pub packets_received: u32,
}

impl Passed {
    const NEEDED: usize = BYTES_RETRANS + 8;

    /// From a struct tcp_info; `None` if it is not whole.
    pub fn read(info: &[u8]) -> Option<Passed> {
        const NOT_SENT: usize = 144;
        const DATA_SEGS_OUT: usize = DATA_SEGS_IN + 4;
        let info = info.get(..Passed::NEEDED)?;
        let half = |at: usize| word(info, at) as u32;
        let gone = word(info, BYTES_SENT).saturating_sub(word(info, BYTES_RETRANS));
        let fin = fins(info[0]).1;
        Some(Passed {
            sent: gone + u64::from(half(NOT_SENT)),
            received: word(info, BYTES_RECEIVED).saturating_sub(fin),
            packets_sent: half(DATA_SEGS_OUT),
            packets_received: half(DATA_SEGS_IN),
        })
    }
}

/// The same of a socket of ours.
pub fn passed(fd: BorrowedFd<'_>) -> io::Result<Passed> {
    let mut bytes = [0; Passed::NEEDED];
    let len = getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    let read = bytes.get(..len as usize).and_then(Passed::read);
    read.ok_or(Errno::NOTSUP)
}

/// How many FINs are counted among the bytes, ours that was acknowledged and the peer's that has arrived, by the state
/// (include/net/tcp_states.h).
fn fins(state: u8) -> (u64, u64) {
    match state {
        5 => (1, 0),
        6 => (1, 1),
        8 | 9 | 11 => (0, 1),
        _ => (0, 0),
    }
}

/// Is a classic filter attached? Asked without room, the kernel tells its length.
pub fn has_filter(fd: BorrowedFd<'_>) -> bool {
    let mut instructions: socklen_t = 0;
    let (socket, to) = (fd.as_raw_fd() as usize, &raw mut instructions as usize);
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_GET_FILTER as usize);
    // SAFETY: no room to write to, and a length that lives across the call.
    let asked = unsafe { raw::syscall(libc::SYS_getsockopt, [socket, level, name, 0, to]) };
    asked.is_ok() && instructions > 0
}

/// The byte counts of TCP_INFO, whoever carried the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// With the SYN, where it counts; without FINs.
    pub acked: u64,
    pub sent: u64,
    pub received: u64,
}

impl Totals {
    /// Puts them into a TCP_INFO that the kernel has filled, as far as the program has room for it.
    pub fn write(&self, info: &mut [u8]) {
        let (ours, theirs) = info.first().map_or((0, 0), |state| fins(*state));
        let sent = self.sent + word(info, BYTES_RETRANS);
        let fields = [
            (BYTES_ACKED, self.acked + ours),
            (BYTES_RECEIVED, self.received + theirs),
            (BYTES_SENT, sent),
        ];
        for (at, value) in fields {
            if let Some(place) = info.get_mut(at..at + 8) {
                place.copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
}

/// A count of TCP_INFO; 0 where it ends before.
fn word(info: &[u8], at: usize) -> u64 {
    let bytes = info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Bytes written but not yet acknowledged by the other end.
pub fn outq(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: on a socket this request writes one int.
    let bytes = unsafe { ioctl(fd, Getter::<SIOCOUTQ, c_int>::new())? };
    u32::try_from(bytes).map_err(|_| Errno::RANGE)
}

/// Bytes written but not yet sent: held back by Nagle, a cork or the receiver's window.
pub fn not_sent(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: on a TCP socket this request writes one int.
    let bytes = unsafe { ioctl(fd, Getter::<SIOCOUTQNSD, c_int>::new())? };
    u32::try_from(bytes).map_err(|_| Errno::RANGE)
}

/// Bytes received but not yet read.
pub fn inq(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: on a socket this request writes one int.
    let bytes = unsafe { ioctl(fd, Getter::<SIOCINQ, c_int>::new())? };
    u32::try_from(bytes).map_err(|_| Errno::RANGE)
}

/// Is the mark of urgent data the next thing to read?
pub fn at_mark(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: on a socket this request writes one int.
    let mark = unsafe { ioctl(fd, Getter::<SIOCATMARK, c_int>::new()) };
    mark.is_ok_and(|mark| mark != 0)
}

/// How much the kernel has been given, from the socket's beginning: bytes, SYN and FIN. What is acknowledged and what
/// is not are read until they belong together; `None` if they never do.
pub fn given(fd: BorrowedFd<'_>) -> Option<u64> {
    in_one_moment(
        || Some(info(fd).ok()?.bytes_acked),
        |acked| Some(acked + u64::from(outq(fd).ok()?)),
    )
}

/// The same of what has been taken from it.
pub fn taken(fd: BorrowedFd<'_>) -> Option<u64> {
    in_one_moment(
        || Some(info(fd).ok()?.bytes_received),
        |received| received.checked_sub(inq(fd).ok()?.into()),
    )
}

fn in_one_moment(
    count: impl Fn() -> Option<u64>,
    more: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    for _ in 0..100 {
        let before = count()?;
        let sum = more(before);
        if count()? == before {
            return sum;
        }
    }
    None
}

/// Our end's address.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    rustix::net::getsockname(fd)?.try_into()
}

/// The other end's address; ENOTCONN when there is none.
pub fn peer_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    rustix::net::getpeername(fd)?
        .ok_or(Errno::NOTCONN)?
        .try_into()
}

/// Whether the socket speaks multipath TCP, whose byte counts are those of one subflow.
pub fn is_mptcp(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_protocol(fd) == Ok(Some(ipproto::MPTCP))
}

/// SO_RCVTIMEO; `None` waits for ever.
pub fn recv_timeout(fd: BorrowedFd<'_>) -> Option<Duration> {
    sockopt::socket_timeout(fd, sockopt::Timeout::Recv).unwrap_or(None)
}

/// SO_SNDTIMEO; `None` waits for ever.
pub fn send_timeout(fd: BorrowedFd<'_>) -> Option<Duration> {
    sockopt::socket_timeout(fd, sockopt::Timeout::Send).unwrap_or(None)
}

/// SO_RCVLOWAT: how many bytes make the socket readable.
pub fn recv_lowat(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes = [0; 4];
    exactly(
        getsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &mut bytes)?,
        4,
    )?;
    Ok(u32::from_ne_bytes(bytes))
}

/// SO_SNDBUF, if the program has set it itself.
pub fn send_buffer(fd: BorrowedFd<'_>) -> Option<u32> {
    // include/uapi/asm-generic/socket.h: SO_BUF_LOCK; include/net/sock.h: SOCK_SNDBUF_LOCK.
    const SO_BUF_LOCK: i32 = 72;
    const LOCKED: u32 = 1;
    let option = |name| {
        let mut word = [0; 4];
        let len = getsockopt(fd, libc::SOL_SOCKET, name, &mut word).ok()?;
        (len == word.len()).then(|| u32::from_ne_bytes(word))
    };
    (option(SO_BUF_LOCK)? & LOCKED != 0).then(|| option(libc::SO_SNDBUF))?
}

/// TCP_CORK: the kernel holds back partial segments.
pub fn is_corked(fd: BorrowedFd<'_>) -> io::Result<bool> {
    sockopt::tcp_cork(fd)
}

fn exactly(len: usize, expected: usize) -> io::Result<()> {
    if len == expected {
        Ok(())
    } else {
        Err(Errno::NOPROTOOPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn counts_bytes_as_the_kernel_does() {
        let (mut client, mut server) = pair();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 2]).unwrap();
        while outq(client.as_fd()).unwrap() > 0 {
            std::thread::yield_now();
        }
        let sent = info(client.as_fd()).unwrap();
        let got = info(server.as_fd()).unwrap();
        assert_eq!((sent.state, got.state), (1, 1));
        assert_eq!(sent.bytes_acked, 5 + 1, "the SYN is counted");
        assert_eq!(got.bytes_received, 5);
        assert_eq!(inq(server.as_fd()), Ok(3));
    }

    #[test]
    fn identity_and_addresses() {
        let (client, server) = pair();
        let (c, s) = (client.as_fd(), server.as_fd());
        assert_ne!(cookie(c).unwrap(), cookie(s).unwrap());
        assert_eq!(netns_cookie(c), netns_cookie(s));
        assert_ne!(netns_cookie(c).unwrap(), 0);
        assert_eq!(local_addr(c), peer_addr(s));
        assert_eq!(peer_addr(c).unwrap(), server.local_addr().unwrap());
    }

    #[test]
    fn options_show() {
        let (client, _server) = pair();
        let fd = client.as_fd();
        assert!(!is_mptcp(fd));
        assert_eq!(recv_timeout(fd), None);
        client
            .set_read_timeout(Some(Duration::from_millis(2500)))
            .unwrap();
        assert_eq!(recv_timeout(fd), Some(Duration::from_millis(2500)));
        assert_eq!(send_timeout(fd), None);
        assert_eq!(recv_lowat(fd), Ok(1));
        assert_eq!(is_corked(fd), Ok(false));
        sockopt::set_tcp_cork(fd, true).unwrap();
        assert_eq!(is_corked(fd), Ok(true));
    }
}
