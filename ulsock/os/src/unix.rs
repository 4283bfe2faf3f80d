//! Unix sockets, as far as descriptors travel through them: which socket is at the other end of one.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::fstat;
use rustix::io::{self, Errno};

use super::{diag, tcp};

/// struct unix_diag_req and unix_diag_msg (include/uapi/linux/unix_diag.h), behind their struct nlmsghdr.
const REQUEST: usize = 24;
const SOCKET: usize = 16;
/// No cookie: not compared. With a wrong one the kernel says ESTALE.
const ANY_COOKIE: u64 = u64::MAX;
const UDIAG_SHOW_PEER: u32 = 4;
const UDIAG_SHOW_UID: u32 = 0x40;
const UNIX_DIAG_PEER: u16 = 2;
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
    let request = request(1, own, ANY_COOKIE, UDIAG_SHOW_PEER);
    let mut answer = [0; 1024];
    let answer = diag::ask(diag::open()?.as_fd(), &request, 1, &mut answer)?;
    let Some(told) = diag::body(answer, SOCKET)? else {
        return Ok(None);
    };
    read(own, told)
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
