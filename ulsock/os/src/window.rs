//! Windows: how a process of another network namespace lets us ask the kernel about its sockets.
//!
//! A window is a sock_diag socket that the other process has opened in its namespace and passed to us.
//! The kernel answers by it about that namespace, and about nothing else can it be used: unlike the TCP
//! socket itself, which its holder could read, or connect to something else over there. We take it only
//! if a process of ours could have made it, see [`Window::adopt`].

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, sock_filter, sock_fprog};
use rustix::fs::{fstat, fstatfs};
use rustix::io::{self, Errno};
use rustix::net::AddressFamily;
use rustix::net::netlink;
use rustix::net::sockopt::{socket_domain, socket_protocol};

use super::diag::{self, OtherEnd};
use super::fds::{InternalFd, Transient};
use super::{random, raw, unix};

/// In a user namespace different strangers all read as this uid (nobody).
pub const OVERFLOW_UID: u32 = 65534;

/// Why a window was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// Not a sock_diag socket.
    WrongType,
    /// Not made by the user who is at the other end of the channel.
    Stranger,
    /// The channel does not lead into that network namespace.
    Elsewhere,
    /// Made in a user namespace that does not know us: its maker may have made the network namespace
    /// too, and given it any address.
    Home,
    Os(Errno),
}

impl From<Errno> for WindowError {
    fn from(errno: Errno) -> WindowError {
        WindowError::Os(errno)
    }
}

/// A window into the network namespace of a peer process.
#[derive(Debug)]
pub struct Window {
    fd: InternalFd,
}

impl Window {
    /// One into our own namespace, to be passed on. Whoever holds it can ask about a socket that it can
    /// name, but not list them.
    pub fn open() -> io::Result<Transient> {
        let fd = diag::open()?;
        let mut program = without_lists();
        let filter = sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        set_option(fd.as_fd(), libc::SO_ATTACH_FILTER, &filter)?;
        set_option(fd.as_fd(), libc::SO_LOCK_FILTER, &1i32)?;
        Ok(fd)
    }

    /// Takes the one that came from the process at the other end of `channel`, which that process has
    /// opened and we have accepted, and which runs as `uid`.
    ///
    /// Such an end belongs to the network namespace of the one and to the user of the other
    /// (unix_stream_connect and unix_accept, net/unix/af_unix.c). So we ask about our own end of the
    /// channel. If it is found, the window leads to where the channel comes from. And it is shown as
    /// ours only if the window's maker was in a user namespace in which our uid has its own number.
    /// Such a one is not made by just anybody, and who is in it gets into another network namespace only
    /// with the privileges of its root. So nobody else shows us a namespace with addresses of his own
    /// choice.
    pub fn adopt(fd: InternalFd, channel: BorrowedFd<'_>, uid: u32) -> Result<Window, WindowError> {
        let is_diag = socket_domain(&fd) == Ok(AddressFamily::NETLINK)
            && socket_protocol(&fd) == Ok(Some(netlink::SOCK_DIAG));
        if !is_diag || fstatfs(&fd)?.f_type != SOCKFS_MAGIC {
            return Err(WindowError::WrongType);
        }
        if fstat(&fd)?.st_uid != uid || uid == OVERFLOW_UID {
            return Err(WindowError::Stranger);
        }
        let window = Window { fd };
        let us = fstat(channel)?.st_uid;
        match window.owner_of(channel)? {
            None => Err(WindowError::Elsewhere),
            Some(owner) if owner == us && us != OVERFLOW_UID => Ok(window),
            Some(_) => Err(WindowError::Home),
        }
    }

    /// As [`diag::other_end`], in that namespace.
    pub fn other_end(&self, local: &SocketAddr, peer: &SocketAddr) -> io::Result<Option<OtherEnd>> {
        diag::other_end_by(self.fd.as_fd(), random()? as u32, local, peer)
    }

    /// Whose this Unix socket is, in the eyes of the window's maker; `None` if it is not over there.
    fn owner_of(&self, socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
        unix::owner_of(self.fd.as_fd(), random()? as u32, socket)
    }
}

/// include/uapi/linux/magic.h
const SOCKFS_MAGIC: i64 = 0x534f_434b;

/// Lets no answer pass that is part of a list: those have NLM_F_MULTI in their header's flags.
fn without_lists() -> [sock_filter; 4] {
    // nlmsg_flags, in the host's order; the bit is in its lower byte.
    const FLAGS: u32 = if cfg!(target_endian = "little") { 6 } else { 7 };
    let step = |code: u32, k: u32, jt: u8| sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, FLAGS, 0),
        step(
            libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
            libc::NLM_F_MULTI as u32,
            1,
        ),
        step(libc::BPF_RET | libc::BPF_K, u32::MAX, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ]
}

fn set_option<T>(fd: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    let (fd, from) = (fd.as_raw_fd() as usize, std::ptr::from_ref(value) as usize);
    let args = [
        fd,
        libc::SOL_SOCKET as usize,
        name as usize,
        from,
        size_of::<T>(),
    ];
    // SAFETY: the kernel reads `value`, and what it points to, which both live until the call returns.
    unsafe { raw::syscall(libc::SYS_setsockopt, args).map(|_| ()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp;
    use rustix::net::{RecvFlags, SendFlags, recv, sendto};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    fn window() -> InternalFd {
        Window::open().unwrap().into_high().unwrap()
    }

    /// A channel: the end that has connected, and the one that was accepted.
    fn channel() -> (UnixStream, UnixStream) {
        let path = std::env::temp_dir().join(format!("ulsock-window-{:x}", random().unwrap()));
        let listener = UnixListener::bind(&path).unwrap();
        let near = UnixStream::connect(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn shows_the_other_end_of_a_connection() {
        let (_near, far) = channel();
        let window = Window::adopt(window(), far.as_fd(), uid()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let (local, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let end = window.other_end(&local, &peer).unwrap().unwrap();
        assert_eq!(end.cookie, tcp::cookie(server.as_fd()).unwrap());
        assert_eq!(end.uid, uid());
        assert_eq!(window.other_end(&peer, &peer), Ok(None));
    }

    #[test]
    fn other_descriptors_and_other_users_are_refused() {
        let (near, far) = channel();
        let adopt = |fd: InternalFd, uid| Window::adopt(fd, far.as_fd(), uid).unwrap_err();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for fd in [tcp.as_fd(), file.as_fd(), near.as_fd()] {
            let fd = crate::fds::duplicate_high(fd).unwrap();
            assert_eq!(adopt(fd, uid()), WindowError::WrongType);
        }
        assert_eq!(adopt(window(), uid() + 1), WindowError::Stranger);
    }

    /// Others may have asked by the same socket.
    #[test]
    fn foreign_answers_are_passed_over() {
        let (_near, far) = channel();
        let window = Window::adopt(window(), far.as_fd(), uid()).unwrap();
        for sequence in 1..4 {
            send(&window.fd, &unix::request(sequence, 0, u64::MAX, 0));
        }
        assert_eq!(window.owner_of(far.as_fd()), Ok(Some(uid())));
    }

    #[test]
    fn what_is_there_cannot_be_listed() {
        let (_near, far) = channel();
        let inode = fstat(&far).unwrap().st_ino as u32;
        let cookie = tcp::cookie(far.as_fd()).unwrap();
        let single = unix::request(1, inode, cookie, 0);
        let mut list = single.clone();
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        list[6..8].copy_from_slice(&flags.to_ne_bytes());
        let answers = |fd: &Transient, request| {
            send(fd, request);
            recv(fd, &mut [0; 4096], RecvFlags::DONTWAIT).is_ok()
        };
        let (free, window) = (diag::open().unwrap(), Window::open().unwrap());
        assert!(answers(&free, &single) && answers(&free, &list));
        assert!(answers(&window, &single) && !answers(&window, &list));
    }

    fn send(fd: impl AsFd, request: &[u8]) {
        let kernel = netlink::SocketAddrNetlink::new(0, 0);
        sendto(fd, request, SendFlags::DONTWAIT, &kernel).unwrap();
    }
}
