//! A descriptor of ours that ulsock knows, from `socket` or `accept` to `close`.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt,
};
use sockets::api::{self, RingRoom, RingView};

use crate::address::RawAddress;
use crate::calls;
use crate::start::start;

#[derive(Debug)]
pub struct Socket {
    /// Closed by `drop`, after ulsock has let go of it.
    fd: RawFd,
}

impl Socket {
    pub fn new(to: &SocketAddr, flags: SocketFlags) -> io::Result<Socket> {
        start();
        let (family, number) = match to {
            SocketAddr::V4(_) => (AddressFamily::INET, libc::AF_INET),
            SocketAddr::V6(_) => (AddressFamily::INET6, libc::AF_INET6),
        };
        let flags = flags | SocketFlags::CLOEXEC;
        let fd = net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        let fd = fd.into_raw_fd();
        let kind = libc::SOCK_STREAM | flags.bits().cast_signed();
        api::socket_opened(fd, number, kind, libc::IPPROTO_TCP);
        Ok(Socket { fd })
    }

    /// As `connect`; what it says while it is in progress is an error here too.
    pub fn connect(&self, to: &SocketAddr) -> io::Result<()> {
        let raw = RawAddress::new(to);
        let (at, len) = raw.parts();
        // SAFETY: the address lives as long as the calls.
        let verdict = unsafe { api::before_connect(self.fd, at, len) };
        let done = verdict.answer(|| net::connect(self, to).map(|()| 0));
        if matches!(done, Ok(_) | Err(Errno::INPROGRESS | Errno::INTR)) {
            // SAFETY: as above.
            unsafe { api::connected(self.fd, at, len, done.is_ok()) };
        }
        match done {
            Err(Errno::INTR) => self.finish_connecting(),
            done => Ok(done.map(drop)?),
        }
    }

    /// A signal does not end an attempt: it goes on by itself.
    fn finish_connecting(&self) -> io::Result<()> {
        let mut list = [PollFd::new(self, PollFlags::OUT)];
        retry(|| poll(&mut list, None))?;
        self.take_error()
    }

    pub fn listen(at: &SocketAddr, flags: SocketFlags) -> io::Result<Socket> {
        const BACKLOG: i32 = 4096;
        let socket = Socket::new(at, flags)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, at)?;
        net::listen(&socket, BACKLOG)?;
        api::listening(socket.fd);
        Ok(socket)
    }

    pub fn accept(&self, flags: SocketFlags) -> io::Result<(Socket, SocketAddr)> {
        api::before_accept(self.fd);
        let flags = flags | SocketFlags::CLOEXEC;
        let (fd, peer) = retry(|| net::acceptfrom_with(self, flags))?;
        let fd = fd.into_raw_fd();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let raw = peer.as_ref().map(RawAddress::new);
        let named = raw.as_ref().map(RawAddress::parts);
        // SAFETY: the address lives as long as the call.
        unsafe { api::accepted(self.fd, fd, named, flags.bits().cast_signed()) };
        let socket = Socket { fd };
        let peer = match peer {
            Some(peer) => peer,
            None => socket.peer_addr()?,
        };
        Ok((socket, peer))
    }

    #[inline]
    pub fn recv(&self, room: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        calls::recv(self.as_fd(), self.fd, room, flags)
    }

    /// Without waiting. An empty ring is the last word: the caller hears of what only the kernel socket knows.
    #[inline]
    pub fn recv_unless_empty(&self, room: &mut [u8]) -> io::Result<usize> {
        calls::recv_unless_empty(self.as_fd(), self.fd, room)
    }

    /// Only the kernel socket could know more.
    pub fn has_empty_ring(&self) -> bool {
        api::is_empty_ring(self.fd)
    }

    pub fn wait_briefly(&self) -> bool {
        api::wait_briefly(self.fd)
    }

    #[inline]
    pub fn send(&self, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
        calls::send(self.as_fd(), self.fd, bytes, flags)
    }

    /// A head and a body as one, if a ring takes them at once; else nothing is sent.
    #[inline]
    pub fn send_two(&self, head: &[u8], body: &[u8]) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        api::send_two_first(self.fd, head, body, flags.bits().cast_signed())
    }

    /// Room in the ring that this sends to, if there is so much. Only the holder of the one stream may ask.
    pub fn reserve(&self, len: usize) -> Option<RingRoom> {
        // SAFETY: a room borrows the stream, which closes its descriptor when it is dropped.
        unsafe { api::reserve(self.fd, len) }
    }

    /// What is in the ring that this receives from.
    pub fn view(&self) -> Option<RingView> {
        // SAFETY: as above; the stream is borrowed exclusively.
        unsafe { api::view(self.fd) }
    }

    /// Bytes of the kernel's that are not acknowledged.
    pub fn has_unsent(&self) -> bool {
        os::tcp::outq(self.as_fd()).is_ok_and(|unsent| unsent > 0)
    }

    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => Shutdown::Read,
            std::net::Shutdown::Write => Shutdown::Write,
            std::net::Shutdown::Both => Shutdown::Both,
        };
        calls::shutdown(self.as_fd(), self.fd, how)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(net::getsockname(self)?)?)
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let peer = net::getpeername(self)?.ok_or(Errno::NOTCONN)?;
        Ok(SocketAddr::try_from(peer)?)
    }

    /// The error that the connection has, which is taken by this.
    pub fn take_error(&self) -> io::Result<()> {
        match sockopt::socket_error(self)? {
            Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub fn set_nodelay(&self, yes: bool) -> io::Result<()> {
        sockopt::set_tcp_nodelay(self, yes)?;
        api::option_set(self.fd, libc::IPPROTO_TCP, libc::TCP_NODELAY);
        Ok(())
    }

    /// For receives, and for sends; `None` waits for ever.
    pub fn set_timeout(&self, which: sockopt::Timeout, after: Option<Duration>) -> io::Result<()> {
        sockopt::set_socket_timeout(self, which, after)?;
        let name = match which {
            sockopt::Timeout::Recv => libc::SO_RCVTIMEO,
            sockopt::Timeout::Send => libc::SO_SNDTIMEO,
        };
        api::option_set(self.fd, libc::SOL_SOCKET, name);
        Ok(())
    }

    /// `Some(0)`: closing resets the connection.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        sockopt::set_socket_linger(self, time)?;
        api::option_set(self.fd, libc::SOL_SOCKET, libc::SO_LINGER);
        Ok(())
    }

    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(self)?)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let fd = self.fd;
        let _ = api::close(fd).answer(|| {
            // SAFETY: ours, and closed here only.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(0)
        });
    }
}

/// Again, if a signal has interrupted it.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Tries all addresses of `to`, in their order.
pub fn each<T>(
    to: impl ToSocketAddrs,
    mut attempt: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    let mut last = None;
    for address in to.to_socket_addrs()? {
        match attempt(&address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(none))
}
