//! Unix sockets: which socket is at the other end of one, whose it is, and what lies unread there, by the kernel's word.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::fstat;
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use super::{diag, tcp};

/// struct unix_diag_req and unix_diag_msg (include/uapi/linux/unix_diag.h), behind their struct nlmsghdr.
const REQUEST: usize = 24;
const SOCKET: usize = 16;
/// No cookie: not compared. With a wrong one the kernel says ESTALE.
const ANY_COOKIE: u64 = u64::MAX;
const UDIAG_SHOW_PEER: u32 = 4;
const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UDIAG_SHOW_UID: u32 = 0x40;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_UID: u16 = 7;

/// The number of a socket in the socket file system. Not used again while the socket lives.
pub fn inode(socket: BorrowedFd<'_>) -> io::Result<u64> {
    fstat(socket).map(|stat| stat.st_ino)
}

/// The number of the one socket that gets what is sent by this one, for as long as it lives. `None`: there is none, or it
/// can change (datagrams), or nobody has accepted it yet.
pub fn receiver_of(socket: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let own = inode(socket)?;
    let own = u32::try_from(own).map_err(|_| Errno::RANGE)?;
    let mut answer = ANSWER;
    let told = ask_about(own, tcp::cookie(socket)?, UDIAG_SHOW_PEER, &mut answer)?;
    told.map_or(Ok(None), |told| read(own, told))
}

/// Whose a socket is, in the network namespace of `window`; `None` if it is not there.
pub fn owner_of(
    window: BorrowedFd<'_>,
    sequence: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<Option<u32>> {
    let request = request(
        sequence,
        inode(socket)? as u32,
        tcp::cookie(socket)?,
        UDIAG_SHOW_UID,
    );
    let mut answer = [0; 1024];
    let answer = diag::ask(window, &request, sequence, &mut answer)?;
    let owner = |told: &[u8]| {
        let uid = diag::attribute(&told[SOCKET..], UNIX_DIAG_UID);
        uid.map_or(Err(Errno::BADMSG), |bytes| diag::u32_at(bytes, 0))
    };
    diag::body(answer, SOCKET)?.map(owner).transpose()
}

/// The name that the service has bound: of an accepted socket its own, of a connected one its peer's. An abstract name is
/// behind a `@`; a pair has none.
pub fn service_name(socket: BorrowedFd<'_>, accepted: bool) -> Vec<u8> {
    let name = match accepted {
        true => rustix::net::getsockname(socket).ok(),
        false => rustix::net::getpeername(socket).ok().flatten(),
    };
    let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
    let Some(name) = name else {
        return Vec::new();
    };
    match (name.path_bytes(), name.abstract_name()) {
        (Some(path), _) => path
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec(),
        (None, Some(name)) if !name.is_empty() => [b"@", name].concat(),
        (None, _) => Vec::new(),
    }
}

/// The socket with this number, if its other end is `own`: both name each other, so each is the other's end for life.
/// `None`: it is not in our network namespace, or not what it should be.
pub fn other_end(own: u32, inode: u32) -> io::Result<Option<OtherEnd>> {
    let show = UDIAG_SHOW_PEER | UDIAG_SHOW_UID;
    let mut answer = ANSWER;
    let Some(told) = ask_about(inode, ANY_COOKIE, show, &mut answer)? else {
        return Ok(None);
    };
    if read(inode, told)? != Some(own.into()) {
        return Ok(None);
    }
    let uid = diag::attribute(&told[SOCKET..], UNIX_DIAG_UID).ok_or(Errno::BADMSG)?;
    Ok(Some(OtherEnd {
        cookie: diag::u64_at(told, 8)?,
        uid: diag::u32_at(uid, 0)?,
    }))
}

/// A socket at the other end of one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherEnd {
    /// Its SO_COOKIE.
    pub cookie: u64,
    /// Who created it, as seen from our user namespace.
    pub uid: u32,
}

/// Bytes that lie unread at the stream socket with this number.
pub fn unread_at(inode: u32) -> io::Result<u32> {
    let mut answer = ANSWER;
    let told = ask_about(inode, ANY_COOKIE, UDIAG_SHOW_RQLEN, &mut answer)?;
    let told = told.ok_or(Errno::NOENT)?;
    let lengths = diag::attribute(&told[SOCKET..], UNIX_DIAG_RQLEN).ok_or(Errno::BADMSG)?;
    diag::u32_at(lengths, 0)
}

/// Is it a Unix stream socket, and nothing like it?
pub fn is_stream(socket: BorrowedFd<'_>) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
}

/// Room for an answer.
const ANSWER: [u8; 1024] = [0; 1024];

/// What the kernel tells of a socket in our network namespace; `None`: it is not there.
fn ask_about(inode: u32, cookie: u64, show: u32, answer: &mut [u8]) -> io::Result<Option<&[u8]>> {
    let request = request(1, inode, cookie, show);
    let answer = diag::ask(diag::open()?.as_fd(), &request, 1, answer)?;
    diag::body(answer, SOCKET)
}

pub(super) fn request(sequence: u32, inode: u32, cookie: u64, show: u32) -> Vec<u8> {
    let head = diag::header(diag::HEADER + REQUEST, sequence);
    let [low, high] = [cookie as u32, (cookie >> 32) as u32];
    let words = [libc::AF_UNIX as u32, u32::MAX, inode, show, low, high];
    let words = words.iter().flat_map(|word| word.to_ne_bytes());
    head.into_iter().chain(words).collect()
}

fn read(own: u32, told: &[u8]) -> io::Result<Option<u64>> {
    let [family, kind] = [told[0], told[1]].map(i32::from);
    if family != libc::AF_UNIX || diag::u32_at(told, 4)? != own {
        return Err(Errno::BADMSG);
    }
    if ![libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(&kind) {
        return Ok(None);
    }
    let peer = diag::attribute(&told[SOCKET..], UNIX_DIAG_PEER);
    let peer = peer.map(|bytes| diag::u32_at(bytes, 0)).transpose()?;
    Ok(peer.filter(|inode| *inode != 0).map(u64::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    #[test]
    fn finds_the_other_end_of_a_pair() {
        let (here, there) = UnixStream::pair().unwrap();
        let inode = inode(there.as_fd()).unwrap();
        assert_eq!(receiver_of(here.as_fd()), Ok(Some(inode)));
        drop(there);
        assert_eq!(receiver_of(here.as_fd()), Ok(None));
    }

    #[test]
    fn both_ends_know_each_other() {
        let (here, there) = UnixStream::pair().unwrap();
        let number = |socket: &UnixStream| inode(socket.as_fd()).unwrap() as u32;
        let end = other_end(number(&here), number(&there)).unwrap().unwrap();
        assert_eq!(end.cookie, tcp::cookie(there.as_fd()).unwrap());
        assert_eq!(end.uid, rustix::process::geteuid().as_raw());
        assert_eq!(other_end(number(&there), number(&there)), Ok(None));
        let (stranger, _other) = UnixStream::pair().unwrap();
        assert_eq!(other_end(number(&here), number(&stranger)), Ok(None));
    }

    #[test]
    fn names_of_services() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::SocketAddr;
        let path = std::env::temp_dir().join(format!("ulsock-name-{}", std::process::id()));
        let id = format!("ulsock-name-{}", std::process::id());
        let listeners = [
            UnixListener::bind(&path).unwrap(),
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&id).unwrap()).unwrap(),
        ];
        let names = [path.to_str().unwrap().to_owned(), format!("@{id}")];
        for (listener, name) in listeners.iter().zip(names) {
            let address = listener.local_addr().unwrap();
            let here = UnixStream::connect_addr(&address).unwrap();
            let there = listener.accept().unwrap().0;
            assert_eq!(service_name(here.as_fd(), false), name.as_bytes());
            assert_eq!(service_name(there.as_fd(), true), name.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(service_name(here.as_fd(), false), b"");
        assert_eq!(service_name(there.as_fd(), true), b"");
    }

    #[test]
    fn tells_what_lies_unread() {
        use std::io::{Read, Write};
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let number = inode(there.as_fd()).unwrap() as u32;
        here.write_all(&[1; 700]).unwrap();
        here.write_all(&[1; 50_000]).unwrap();
        assert_eq!(unread_at(number), Ok(50_700));
        there.read_exact(&mut [0; 701]).unwrap();
        assert_eq!(unread_at(number), Ok(49_999));
        assert!(is_stream(here.as_fd()));
        assert!(!is_stream(UnixDatagram::unbound().unwrap().as_fd()));
    }

    #[test]
    fn what_can_change_is_none() {
        let (here, _there) = UnixDatagram::pair().unwrap();
        assert_eq!(receiver_of(here.as_fd()), Ok(None));
        let (tcp, _) = (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), ());
        assert_eq!(receiver_of(tcp.as_fd()), Ok(None), "no Unix socket");
    }

    #[test]
    fn one_that_is_not_accepted_yet_is_none() {
        let path = std::env::temp_dir().join(format!("ulsock-unix-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let here = UnixStream::connect(&path).unwrap();
        assert_eq!(receiver_of(here.as_fd()), Ok(None));
        let there = listener.accept().unwrap().0;
        let number = inode(there.as_fd()).unwrap();
        assert_eq!(receiver_of(here.as_fd()), Ok(Some(number)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn answers_about_others_are_nonsense() {
        let mut told = [0; SOCKET];
        (told[0], told[1], told[4]) = (libc::AF_UNIX as u8, libc::SOCK_STREAM as u8, 7);
        assert_eq!(read(7, &told), Ok(None));
        assert_eq!(read(8, &told), Err(Errno::BADMSG));
    }
}
