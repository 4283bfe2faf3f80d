//! Mailboxes and control channels: how two processes first meet, and how descriptors travel.
//!
//! A mailbox is a listening Unix SEQPACKET socket in the run directory, one per process, and a twin
//! of the same name in the abstract namespace, for those whom a chroot keeps from /proc. Strangers may
//! connect to either, so nothing here blocks, every message is checked, and no descriptor that came
//! with a bad one stays open.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::fs::{chmodat, AtFlags, Mode};
use rustix::io::{self, Errno};
use rustix::net::{
    accept_with, bind, connect, listen, recvmsg, sendmsg, socket_with, sockopt, AddressFamily,
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::getpid;
use rustix::time::Timespec;

use crate::message::{self, Message};
use crate::rundir::{RunDir, HOST, HOST_DOOR, LOCK, MAIL};
use crate::sys::fds::{to_high, InternalFd, Transient};
use crate::sys::text::Text;
use crate::sys::{getsockopt, random};

/// Peers that may wait to be accepted; beyond that `connect` says EAGAIN and they try later.
const BACKLOG: i32 = 128;

/// Names a process's mailbox in the run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MailboxName {
    /// As its owner sees itself; other pid namespaces may know it by another number.
    pub pid: u32,
    pub random: u64,
}

impl MailboxName {
    /// The socket's file name.
    pub fn file(&self) -> io::Result<Text> {
        Text::format(format_args!("{MAIL}.{}.{:016x}", self.pid, self.random))
    }

    /// The name of the file whose lock says that the owner lives.
    pub fn lock_file(&self) -> io::Result<Text> {
        Text::format(format_args!(
            "{MAIL}.{}.{:016x}{LOCK}",
            self.pid, self.random
        ))
    }
}

fn own_pid() -> u32 {
    getpid().as_raw_pid().unsigned_abs()
}

/// Our own mailbox. A forked child makes its own and drops the one it inherited.
#[derive(Debug)]
pub struct Mailbox {
    name: MailboxName,
    /// Not in a chroot without /proc.
    socket: Option<InternalFd>,
    twin: InternalFd,
    /// Held, not used: its lock dies with us.
    _lock: InternalFd,
    dir: RunDir,
}

impl Mailbox {
    pub fn create(dir: &RunDir) -> io::Result<Mailbox> {
        let dir = dir.duplicate()?;
        let (name, lock) = create_lock(&dir)?;
        let give_up = |_: &Errno| remove(&dir, &name);
        let twin = open_socket(&abstract_address(&name)?).inspect_err(give_up)?;
        let socket = match open_named(&dir, &name) {
            Err(Errno::NOENT) => None,
            other => Some(other.inspect_err(give_up)?),
        };
        Ok(Mailbox {
            name,
            socket,
            twin,
            _lock: lock,
            dir,
        })
    }

    pub fn name(&self) -> MailboxName {
        self.name
    }

    /// The next peer that has connected, if any.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        for socket in self.socket.iter().chain([&self.twin]) {
            match accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => return Channel::accepted(fd).map(Some),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(None)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // A forked child holds a copy of its parent's mailbox, which must stay.
        if self.name.pid == own_pid() {
            remove(&self.dir, &self.name);
        }
    }
}

/// Creates the lock file under a fresh name, before the socket exists: a mailbox without a held lock
/// is litter to every sweeper.
fn create_lock(dir: &RunDir) -> io::Result<(MailboxName, InternalFd)> {
    for _ in 0..8 {
        let name = MailboxName {
            pid: own_pid(),
            random: random()?,
        };
        let mode = Mode::RUSR | Mode::WUSR;
        if let Some(lock) = dir.create_locked_at(&name.lock_file()?, mode, 0)? {
            return Ok((name, lock));
        }
    }
    Err(Errno::AGAIN)
}

/// Everybody may connect; who is let in is decided by SO_PEERCRED.
fn open_named(dir: &RunDir, name: &MailboxName) -> io::Result<InternalFd> {
    let socket = open_socket(&address(dir, name)?)?;
    let everybody = Mode::from_raw_mode(0o666);
    chmodat(dir, &*name.file()?, everybody, AtFlags::empty())?;
    Ok(socket)
}

fn open_socket(address: &SocketAddrUnix) -> io::Result<InternalFd> {
    let socket = new_socket()?;
    bind(&socket, address)?;
    listen(&socket, BACKLOG)?;
    socket.into_high()
}

fn new_socket() -> io::Result<Transient> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map(Transient::new)
}

/// There is no bindat(2): /proc stands in, and keeps the path short.
fn address(dir: &RunDir, name: &MailboxName) -> io::Result<SocketAddrUnix> {
    let dir = dir.as_fd().as_raw_fd();
    let path = Text::format(format_args!("/proc/self/fd/{dir}/{}", &*name.file()?))?;
    SocketAddrUnix::new(&*path)
}

/// Where the daemon of a network namespace listens.
fn daemon_address(dir: &RunDir, netns: u64) -> io::Result<SocketAddrUnix> {
    let dir = dir.as_fd().as_raw_fd();
    let path = Text::format(format_args!("/proc/self/fd/{dir}/nicd.{netns:016x}"))?;
    SocketAddrUnix::new(&*path)
}

/// Names there are free for all to take, but nobody can guess ours before it is taken.
fn abstract_address(name: &MailboxName) -> io::Result<SocketAddrUnix> {
    let name = Text::format(format_args!("ulsock.{}", &*name.file()?))?;
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

/// The socket goes first: see [`create_lock`].
fn remove(dir: &RunDir, name: &MailboxName) {
    for file in [name.file(), name.lock_file()].into_iter().flatten() {
        dir.remove(&file);
    }
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
}

impl Channel {
    /// Connects to a mailbox; EAGAIN when too many already wait there.
    pub fn connect(dir: &RunDir, name: MailboxName) -> io::Result<Channel> {
        let socket = new_socket()?;
        match connect(&socket, &address(dir, &name)?) {
            // It, or we, may be in a chroot.
            Err(Errno::NOENT) => connect(&socket, &abstract_address(&name)?)?,
            other => other?,
        }
        let fd = socket.into_high()?;
        Ok(Channel { fd })
    }

    /// One that has come to a socket of the daemon's.
    pub fn accepted(fd: OwnedFd) -> io::Result<Channel> {
        to_high(fd).map(|fd| Channel { fd })
    }

    /// Is there a daemon for a network namespace, or was there one?
    pub fn daemon_is_there(dir: &RunDir, netns: u64) -> bool {
        Text::format(format_args!("nicd.{netns:016x}"))
            .is_ok_and(|name| rustix::fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Connects to the daemon of a network namespace.
    pub fn connect_to_daemon(dir: &RunDir, netns: u64) -> io::Result<Channel> {
        let socket = new_socket()?;
        connect(&socket, &daemon_address(dir, netns)?)?;
        let fd = socket.into_high()?;
        Ok(Channel { fd })
    }

    /// Connects to the daemon of the host that we are a container of.
    pub fn connect_to_host(dir: &RunDir) -> io::Result<Channel> {
        let dir = dir.as_fd().as_raw_fd();
        let path = Text::format(format_args!("/proc/self/fd/{dir}/{HOST}/{HOST_DOOR}"))?;
        let socket = new_socket()?;
        connect(&socket, &SocketAddrUnix::new(&*path)?)?;
        let fd = socket.into_high()?;
        Ok(Channel { fd })
    }

    /// One end of a pair that the daemon of the host has made.
    pub fn given(fd: InternalFd) -> io::Result<Channel> {
        let is_channel = sockopt::socket_domain(&fd)? == AddressFamily::UNIX
            && sockopt::socket_type(&fd)? == SocketType::SEQPACKET;
        is_channel.then_some(Channel { fd }).ok_or(Errno::PROTOTYPE)
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
    use crate::doorbell::DoorbellKind;
    use crate::rundir::scratch::Scratch;
    use rustix::fs::{fstat, memfd_create, MemfdFlags};

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
            pid: own_pid(),
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
    fn is_reached_from_a_chroot() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        dir.remove(&mailbox.name().file().unwrap());
        let (near, far) = meet(&dir, &mailbox);
        near.send(&CLAIM, None).unwrap();
        assert_eq!(far.recv().unwrap().unwrap().0, CLAIM);
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

    #[test]
    fn leaves_nothing_behind() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        assert_eq!(dir.names().len(), 2);
        assert_eq!(dir.sweep(), 0, "alive");
        let name = mailbox.name();
        drop(mailbox);
        assert!(dir.names().is_empty());
        assert_eq!(
            Channel::connect(&dir, name).unwrap_err(),
            Errno::CONNREFUSED
        );
    }

    #[test]
    fn a_forked_child_does_not_remove_its_parents() {
        let dir = Scratch::new();
        let mut mailbox = Mailbox::create(&dir).unwrap();
        // What the child would see: the mailbox of another pid.
        let name = mailbox.name;
        mailbox.name.pid += 1;
        drop(mailbox);
        assert_eq!(dir.names().len(), 2);
        assert!(dir.is_dead(&name.lock_file().unwrap()));
        assert_eq!(dir.sweep(), 1);
        assert!(dir.names().is_empty());
    }
}
