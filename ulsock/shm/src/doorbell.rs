//! Doorbells: how a peer process wakes one of our waiters (a thread, or an epoll instance).
//!
//! The waiter owns a [`Doorbell`] and sleeps on its `wait_fd`; peers hold a [`Ringer`] for it. An
//! eventfd serves peers of our own uid only: a stranger could make it block or steal its count.
//! Nothing here ever blocks, whatever a peer did to the descriptor that it gave us.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{self, Errno, read, write};
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_domain, socket_type};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, getpeername, send, socketpair,
};

use os::fds::InternalFd;
use os::fds::to_high;
use os::proc;
use os::raw;

/// How a doorbell is rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellKind {
    /// An eventfd, within one uid.
    Event,
    /// One end of a Unix datagram pair, for other uids.
    Socket,
}

impl DoorbellKind {
    pub fn to_wire(self) -> u8 {
        match self {
            DoorbellKind::Event => 0,
            DoorbellKind::Socket => 1,
        }
    }

    pub fn from_wire(byte: u8) -> Option<DoorbellKind> {
        match byte {
            0 => Some(DoorbellKind::Event),
            1 => Some(DoorbellKind::Socket),
            _ => None,
        }
    }
}

/// Rings taken off with one call: more than a pair's queue usually holds.
const AT_ONCE: usize = 8;
/// Calls to drain one bell. Strangers can ring as fast as we drain; what is left wakes us again.
const DRAINS: usize = 4;

/// The waiter's side.
#[derive(Debug)]
pub struct Doorbell {
    wait: InternalFd,
    /// The end that peers ring; an eventfd has one end only.
    far: Option<InternalFd>,
}

impl Doorbell {
    /// For any number of peers of our own uid.
    pub fn new_event() -> io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Doorbell {
            wait: to_high(fd)?,
            far: None,
        })
    }

    /// For one peer of another uid, or several that may harm each other: whoever holds the far end
    /// can shut it down. Datagrams, because shutting down their far end does not show at ours; a
    /// stream's would leave us with an end of file that wakes for ever.
    pub fn new_pair() -> io::Result<Doorbell> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (wait, far) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let (wait, far) = (to_high(wait), to_high(far));
        let (wait, far) = (wait?, far?);
        // The kernel raises this to its least: a few rings in the queue say as much as hundreds.
        set_socket_send_buffer_size(&far, 1)?;
        Ok(Doorbell {
            wait,
            far: Some(far),
        })
    }

    pub fn kind(&self) -> DoorbellKind {
        match self.far {
            None => DoorbellKind::Event,
            Some(_) => DoorbellKind::Socket,
        }
    }

    /// What to sleep on: readable once rung.
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        self.wait.as_fd()
    }

    /// What to send to the peer.
    pub fn far_fd(&self) -> BorrowedFd<'_> {
        self.far.as_ref().unwrap_or(&self.wait).as_fd()
    }

    /// Takes the rings off, so that the next one wakes again. Says whether there were any.
    pub fn drain(&self) -> bool {
        match self.kind() {
            DoorbellKind::Event => read(&self.wait, &mut [0; 8]).is_ok(),
            DoorbellKind::Socket => self.drain_pair(),
        }
    }

    fn drain_pair(&self) -> bool {
        let mut any = false;
        for _ in 0..DRAINS {
            let taken = take_rings(self.wait.as_fd());
            any |= taken > 0;
            if taken < AT_ONCE {
                break;
            }
        }
        any
    }
}

/// Takes up to [`AT_ONCE`] datagrams, whatever is in them, with one call.
fn take_rings(from: BorrowedFd<'_>) -> usize {
    // SAFETY: all zero is a message without room for anything.
    let mut messages: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
    let (fd, at) = (from.as_raw_fd() as usize, messages.as_mut_ptr() as usize);
    let flags = libc::MSG_DONTWAIT as usize;
    // SAFETY: the messages live during the call, and are as many.
    unsafe { raw::syscall(libc::SYS_recvmmsg, [fd, at, AT_ONCE, flags, 0]) }.unwrap_or(0)
}

/// Why a peer's doorbell was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingerError {
    /// An eventfd from another uid.
    Stranger,
    /// Not what its kind says.
    WrongType,
    /// Ringing it could block.
    Blocking,
    Os(Errno),
}

impl From<Errno> for RingerError {
    fn from(errno: Errno) -> RingerError {
        RingerError::Os(errno)
    }
}

/// The peer's side: rings somebody else's doorbell.
#[derive(Debug)]
pub struct Ringer {
    kind: DoorbellKind,
    fd: InternalFd,
}

impl Ringer {
    /// Takes a peer's descriptor, after checking that ringing it is harmless.
    pub fn adopt(
        kind: DoorbellKind,
        fd: InternalFd,
        same_uid: bool,
    ) -> Result<Ringer, RingerError> {
        match kind {
            DoorbellKind::Event if !same_uid => return Err(RingerError::Stranger),
            DoorbellKind::Event => check_event(&fd)?,
            DoorbellKind::Socket => check_socket(fd.as_fd())?,
        }
        Ok(Ringer { kind, fd })
    }

    /// Is its descriptor's number not below this one?
    pub fn is_at_or_above(&self, number: RawFd) -> bool {
        self.fd.as_raw_fd() >= number
    }

    /// Rings. A full doorbell has been rung already; an error means that the waiter is gone.
    pub fn ring(&self) -> io::Result<()> {
        let rung = match self.kind {
            DoorbellKind::Event => write(&self.fd, &1u64.to_ne_bytes()),
            DoorbellKind::Socket => send(&self.fd, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        };
        match rung {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

fn check_event(fd: &InternalFd) -> Result<(), RingerError> {
    let mut target = [0; 32];
    let len = proc::describe(fd, &mut target)?;
    if target.get(..len) != Some(b"anon_inode:[eventfd]") {
        return Err(RingerError::WrongType);
    }
    if !fcntl_getfl(fd)?.contains(OFlags::NONBLOCK) {
        return Err(RingerError::Blocking);
    }
    Ok(())
}

/// A nameless Unix datagram pair. One that leads to a named socket is some service's, which would
/// take our byte for a message from us. (The peer can connect it elsewhere later; one byte, sent
/// without waiting, is all that it ever gets.)
fn check_socket(fd: BorrowedFd<'_>) -> Result<(), RingerError> {
    if socket_domain(fd).map_err(|_| RingerError::WrongType)? != AddressFamily::UNIX
        || socket_type(fd)? != SocketType::DGRAM
    {
        return Err(RingerError::WrongType);
    }
    // By length alone: rustix's parser asserts a terminator, which a path of full length lacks.
    match getpeername(fd)? {
        Some(peer) if peer.addr_len() as usize == size_of::<libc::sa_family_t>() => Ok(()),
        _ => Err(RingerError::WrongType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::fcntl_setfl;
    use std::os::fd::OwnedFd;

    fn rung(bell: &Doorbell) -> bool {
        let wait = bell.wait_fd();
        let mut fds = [PollFd::new(&wait, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    fn high(fd: BorrowedFd<'_>) -> InternalFd {
        to_high(fd.try_clone_to_owned().unwrap()).unwrap()
    }

    fn adopt(kind: DoorbellKind, fd: impl Into<OwnedFd>) -> Result<Ringer, RingerError> {
        Ringer::adopt(kind, to_high(fd.into()).unwrap(), true)
    }

    fn rings(bell: Doorbell) {
        let ringer = Ringer::adopt(bell.kind(), high(bell.far_fd()), true).unwrap();
        assert!(!rung(&bell) && !bell.drain());
        // Far more than it holds: ringing neither fails nor blocks.
        for _ in 0..2000 {
            ringer.ring().unwrap();
        }
        assert!(rung(&bell) && bell.drain());
        assert!(!rung(&bell), "one drain empties it");
        ringer.ring().unwrap();
        assert!(rung(&bell));
    }

    #[test]
    fn event_rings() {
        rings(Doorbell::new_event().unwrap());
    }

    #[test]
    fn pair_rings_and_tells_of_death() {
        rings(Doorbell::new_pair().unwrap());
        let bell = Doorbell::new_pair().unwrap();
        let ringer = Ringer::adopt(bell.kind(), high(bell.far_fd()), false).unwrap();
        drop(bell);
        assert!(ringer.ring().is_err());
    }

    #[test]
    fn a_shut_pair_does_not_wake_for_ever() {
        let bell = Doorbell::new_pair().unwrap();
        rustix::net::shutdown(bell.far_fd(), rustix::net::Shutdown::Both).unwrap();
        bell.drain();
        assert!(!rung(&bell));
    }

    #[test]
    fn refuses_what_could_block_or_deceive() {
        let bell = Doorbell::new_event().unwrap();
        let stranger = Ringer::adopt(DoorbellKind::Event, high(bell.far_fd()), false);
        assert_eq!(stranger.unwrap_err(), RingerError::Stranger);
        let as_socket = adopt(
            DoorbellKind::Socket,
            bell.far_fd().try_clone_to_owned().unwrap(),
        );
        assert_eq!(as_socket.unwrap_err(), RingerError::WrongType);
        fcntl_setfl(bell.far_fd(), OFlags::empty()).unwrap();
        let blocking = adopt(
            DoorbellKind::Event,
            bell.far_fd().try_clone_to_owned().unwrap(),
        );
        assert_eq!(blocking.unwrap_err(), RingerError::Blocking);
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let as_event = adopt(DoorbellKind::Event, end.try_clone().unwrap());
        assert_eq!(as_event.unwrap_err(), RingerError::WrongType);
        assert_eq!(
            adopt(DoorbellKind::Socket, end).unwrap_err(),
            RingerError::WrongType
        );
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            adopt(DoorbellKind::Socket, udp).unwrap_err(),
            RingerError::WrongType
        );
    }

    #[test]
    fn refuses_a_socket_that_leads_to_a_service() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("service");
        let _service = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        assert_eq!(
            adopt(DoorbellKind::Socket, client).unwrap_err(),
            RingerError::WrongType
        );
    }
}
