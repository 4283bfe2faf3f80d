//! Control channels: how two processes talk that have met, and how descriptors travel.
//!
//! A channel is a connected Unix SEQPACKET socket, to the [mailbox](crate::mailbox) of another process or to a
//! daemon. Strangers may be at the other end, so nothing here blocks, every message is checked, and no
//! descriptor that came with a bad one stays open.

pub mod address;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, connect,
    recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::time::Timespec;

use crate::mailbox_name::MailboxName;
use crate::message::{self, Message};
use crate::rundir::RunDir;
use os::fds::InternalFd;
use os::fds::Transient;
use os::fds::to_high;
use os::getsockopt;

/// Of the kind that channels are.
pub fn new_socket() -> io::Result<Transient> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map(Transient::new)
}

/// Who is at the other end of a channel, as the kernel recorded it at connect or listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// 0 when our pid namespace cannot name it.
    pub pid: u32,
    pub uid: u32,
}

/// Why a channel did not do what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// The peer does not read; try later.
    Full,
    /// The peer is gone.
    Closed,
    /// The peer, or the caller of `send`, breaks the protocol: close the channel.
    Protocol,
    Os(Errno),
}

impl From<Errno> for ChannelError {
    fn from(errno: Errno) -> ChannelError {
        match errno {
            Errno::AGAIN => ChannelError::Full,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => ChannelError::Closed,
            errno => ChannelError::Os(errno),
        }
    }
}

/// A control channel between two processes.
#[derive(Debug)]
pub struct Channel {
    fd: InternalFd,
    /// It was made by a name of the abstract namespace, of which every network namespace has its own.
    near: bool,
}

impl Channel {
    /// Connects to a mailbox; EAGAIN when too many already wait there. In a network namespace of its own it is
    /// reached by its file only.
    pub fn connect(dir: &RunDir, name: MailboxName) -> io::Result<Channel> {
        let socket = new_socket()?;
        let near = match connect(&socket, &address::of_twin(&name)?) {
            Err(Errno::CONNREFUSED) => false,
            other => other.map(|()| true)?,
        };
        if !near {
            // A symbolic link leads to a socket of its maker's choice.
            let found = statat(dir, &*name.file()?, AtFlags::SYMLINK_NOFOLLOW);
            let is_socket = |file: Stat| FileType::from_raw_mode(file.st_mode) == FileType::Socket;
            if !found.is_ok_and(is_socket) {
                return Err(Errno::CONNREFUSED);
            }
            connect(&socket, &address::of_mailbox(dir, &name)?)?;
        }
        let fd = socket.into_high()?;
        Ok(Channel { fd, near })
    }

    /// One that has come to a socket of ours.
    pub fn accepted(fd: OwnedFd) -> io::Result<Channel> {
        to_high(fd).map(|fd| Channel { fd, near: false })
    }

    /// The same, to the twin of our mailbox.
    pub fn accepted_near(fd: OwnedFd) -> io::Result<Channel> {
        to_high(fd).map(|fd| Channel { fd, near: true })
    }

    /// Both ends were made in one network namespace, for certain.
    pub fn is_near(&self) -> bool {
        self.near
    }

    /// Is there a daemon for a network namespace, or was there one?
    pub fn daemon_is_there(dir: &RunDir, netns: u64) -> bool {
        address::daemon_file(netns)
            .is_ok_and(|name| statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Connects to the daemon of a network namespace.
    pub fn connect_to_daemon(dir: &RunDir, netns: u64) -> io::Result<Channel> {
        let socket = new_socket()?;
        connect(&socket, &address::of_daemon(dir, netns)?)?;
        Channel::far(socket)
    }

    /// Connects to the daemon of the host that we are a container of.
    pub fn connect_to_host(dir: &RunDir) -> io::Result<Channel> {
        let socket = new_socket()?;
        connect(&socket, &address::of_host(dir)?)?;
        Channel::far(socket)
    }

    fn far(socket: Transient) -> io::Result<Channel> {
        let fd = socket.into_high()?;
        Ok(Channel { fd, near: false })
    }

    /// One end of a pair that the daemon of the host has made.
    pub fn given(fd: InternalFd) -> io::Result<Channel> {
        let is_channel = sockopt::socket_domain(&fd)? == AddressFamily::UNIX
            && sockopt::socket_type(&fd)? == SocketType::SEQPACKET;
        let channel = Channel { fd, near: false };
        is_channel.then_some(channel).ok_or(Errno::PROTOTYPE)
    }

    /// rustix's own reader takes the pid for non-zero, which it is not across pid namespaces.
    pub fn peer(&self) -> io::Result<Credentials> {
        let mut bytes = [0; size_of::<libc::ucred>()];
        let option = libc::SO_PEERCRED;
        let len = getsockopt(self.fd.as_fd(), libc::SOL_SOCKET, option, &mut bytes)?;
        let [pid, uid, _gid] = [0, 4, 8].map(|at| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        });
        if len != bytes.len() {
            return Err(Errno::NOPROTOOPT);
        }
        Ok(Credentials { pid, uid })
    }

    /// Nobody holds the other end any more. What has come from there can still be received.
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Sends a message, with the descriptor that its kind wants.
    pub fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> Result<(), ChannelError> {
        if message.carries_fd() != fd.is_some() {
            return Err(ChannelError::Protocol);
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(fd.as_slice())) {
            return Err(ChannelError::Protocol);
        }
        if fd.is_none() {
            control.clear();
        }
        let bytes = message.encode();
        let iov = [IoSlice::new(bytes.as_bytes())];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.fd, &iov, &mut control, flags)?;
        Ok(())
    }

    /// The next message, if one has come, with its descriptor.
    pub fn recv(&self) -> Result<Option<(Message, Option<InternalFd>)>, ChannelError> {
        let mut bytes = [0; message::MAX + 1];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.fd, &mut iov, &mut control, flags) {
            Err(Errno::AGAIN) => return Ok(None),
            other => other?,
        };
        let fds = Received::take(&mut control);
        if got.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        if got.flags.intersects(cut) || fds.surplus {
            return Err(ChannelError::Protocol);
        }
        let message = bytes.get(..got.bytes).and_then(Message::decode);
        let message = message.ok_or(ChannelError::Protocol)?;
        if message.carries_fd() != fds.first.is_some() {
            return Err(ChannelError::Protocol);
        }
        let fd = fds.first.map(Transient::into_high).transpose()?;
        Ok(Some((message, fd)))
    }
}

impl AsFd for Channel {
    /// Readable when a message has come or the peer is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The descriptors that came with a message: one, or too many, of which the rest is closed.
#[derive(Default)]
struct Received {
    first: Option<Transient>,
    surplus: bool,
}

impl Received {
    fn take(control: &mut RecvAncillaryBuffer<'_>) -> Received {
        let mut received = Received::default();
        for item in control.drain() {
            let RecvAncillaryMessage::ScmRights(fds) = item else {
                received.surplus = true;
                continue;
            };
            for fd in fds.map(Transient::new) {
                received.surplus |= received.first.is_some();
                received.first = received.first.or(Some(fd));
            }
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;
    use crate::rundir::scratch::Scratch;
    use rustix::fs::{MemfdFlags, fstat, memfd_create};
    use shm::doorbell::DoorbellKind;

    const CLAIM: Message = Message::Claim {
        offer_cookie: 1,
        claim_cookie: 2,
        segment: 3,
        conn: 4,
    };
    const HELLO: Message = Message::Hello {
        version: 1,
        pid: 77,
    };

    fn memfd() -> OwnedFd {
        memfd_create(c"test", MemfdFlags::CLOEXEC).unwrap()
    }

    fn meet(dir: &RunDir, mailbox: &Mailbox) -> (Channel, Channel) {
        let near = Channel::connect(dir, mailbox.name()).unwrap();
        (near, mailbox.accept().unwrap().unwrap())
    }

    /// Sends bytes and descriptors that `Channel::send` never would.
    fn send_raw(channel: &Channel, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let iov = [IoSlice::new(bytes)];
        sendmsg(&channel.fd, &iov, &mut control, SendFlags::DONTWAIT).unwrap();
    }

    #[test]
    fn two_ends_talk_and_pass_descriptors() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        assert!(mailbox.accept().unwrap().is_none());
        let (near, far) = meet(&dir, &mailbox);
        let us = Credentials {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
        };
        assert_eq!((near.peer(), far.peer()), (Ok(us), Ok(us)));

        let file = memfd();
        near.send(&HELLO, Some(file.as_fd())).unwrap();
        near.send(&CLAIM, None).unwrap();
        let (message, fd) = far.recv().unwrap().unwrap();
        assert_eq!(message, HELLO);
        assert_eq!(
            fstat(fd.unwrap()).unwrap().st_ino,
            fstat(&file).unwrap().st_ino
        );
        let (message, fd) = far.recv().unwrap().unwrap();
        assert_eq!((message, fd.is_none()), (CLAIM, true));
        assert!(far.recv().unwrap().is_none());
        drop(near);
        assert_eq!(far.recv().unwrap_err(), ChannelError::Closed);
        assert_eq!(far.send(&CLAIM, None), Err(ChannelError::Closed));
    }

    #[test]
    fn a_peer_that_does_not_read_is_full() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        let (near, _far) = meet(&dir, &mailbox);
        let mut sends = (0..100_000).map(|_| near.send(&CLAIM, None));
        assert_eq!(sends.find(Result::is_err), Some(Err(ChannelError::Full)));
    }

    #[test]
    fn bad_messages_are_refused_and_their_descriptors_closed() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        let (near, far) = meet(&dir, &mailbox);
        let (watch, sent) = rustix::pipe::pipe().unwrap();
        let (hello, claim) = (HELLO.encode(), CLAIM.encode());
        let many = [sent.as_fd(); 5];
        for (bytes, fds) in [
            (hello.as_bytes(), 0),
            (hello.as_bytes(), 2),
            (hello.as_bytes(), 5),
            (claim.as_bytes(), 1),
            (&hello.as_bytes()[..5], 1),
            (&[0u8; 29][..], 1),
            (&[7u8; 500][..], 5),
        ] {
            send_raw(&near, bytes, &many[..fds]);
            assert_eq!(far.recv().unwrap_err(), ChannelError::Protocol);
        }
        drop(sent);
        // End of file: no copy of the writing end is left.
        assert_eq!(rustix::io::read(&watch, &mut [0; 1]), Ok(0));
    }

    #[test]
    fn send_checks_its_caller() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        let (near, _far) = meet(&dir, &mailbox);
        let bell = Message::Doorbell {
            waiter: 0,
            kind: DoorbellKind::Event,
        };
        assert_eq!(near.send(&bell, None), Err(ChannelError::Protocol));
        let file = memfd();
        assert_eq!(
            near.send(&CLAIM, Some(file.as_fd())),
            Err(ChannelError::Protocol)
        );
    }
}
