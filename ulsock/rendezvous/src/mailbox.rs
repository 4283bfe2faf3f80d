//! Mailboxes: how two processes first meet.
//!
//! A mailbox is a listening Unix SEQPACKET socket in the run directory, one per process, and a twin
//! of the same name in the abstract namespace, which is one per network namespace: who comes by the twin is of
//! our network namespace, whatever run directories are shared. It is also there for those whom a chroot keeps from
//! /proc. Who connects to either, and strangers may, has a [channel](crate::channel) to its owner.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, chmodat};
use rustix::io::{self, Errno};
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, listen};
use rustix::process::getpid;

use crate::channel::{Channel, address, new_socket};
pub use crate::mailbox_name::MailboxName;
use crate::rundir::RunDir;
use os::fds::InternalFd;
use os::random;

/// Peers that may wait to be accepted; beyond that `connect` says EAGAIN and they try later.
const BACKLOG: i32 = 128;

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
        let twin = open_socket(&address::of_twin(&name)?).inspect_err(give_up)?;
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
        if let Some(fd) = accept(&self.twin)? {
            return Channel::accepted_near(fd).map(Some);
        }
        match &self.socket {
            Some(socket) => accept(socket)?.map(Channel::accepted).transpose(),
            None => Ok(None),
        }
    }

    /// Readable when there is somebody to be accepted.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let all = self.socket.iter().chain([&self.twin]);
        all.map(AsFd::as_fd)
    }

    /// Nobody finds it any more. For an owner that ends and cannot drop it.
    pub fn remove_files(&self) {
        // A forked child holds a copy of its parent's mailbox, which must stay.
        if self.name.pid == own_pid() {
            remove(&self.dir, &self.name);
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.remove_files();
    }
}

fn accept(socket: &InternalFd) -> io::Result<Option<OwnedFd>> {
    match accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno),
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
    let socket = open_socket(&address::of_mailbox(dir, name)?)?;
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

/// The socket goes first: see [`create_lock`].
fn remove(dir: &RunDir, name: &MailboxName) {
    for file in [name.file(), name.lock_file()].into_iter().flatten() {
        dir.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::rundir::scratch::Scratch;
    use rustix::thread::UnshareFlags;

    #[test]
    fn is_reached_from_a_chroot() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        dir.remove(&mailbox.name().file().unwrap());
        let near = Channel::connect(&dir, mailbox.name()).unwrap();
        let far = mailbox.accept().unwrap().unwrap();
        let claim = Message::Claim {
            offer_cookie: 1,
            claim_cookie: 2,
            segment: 3,
            conn: 4,
        };
        near.send(&claim, None).unwrap();
        assert_eq!(far.recv().unwrap().unwrap().0, claim);
    }

    #[test]
    fn is_not_found_behind_a_symbolic_link() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        let alias = MailboxName {
            random: !mailbox.name().random,
            ..mailbox.name()
        };
        let (file, target) = (alias.file().unwrap(), mailbox.name().file().unwrap());
        rustix::fs::symlinkat(&*target, &*dir, &*file).unwrap();
        let found = Channel::connect(&dir, alias);
        assert_eq!(found.unwrap_err(), Errno::CONNREFUSED);
    }

    #[test]
    fn the_twin_tells_who_is_of_our_network_namespace() {
        let dir = Scratch::new();
        let mailbox = Mailbox::create(&dir).unwrap();
        let near = Channel::connect(&dir, mailbox.name()).unwrap();
        assert!(near.is_near() && mailbox.accept().unwrap().unwrap().is_near());
        let far = std::thread::scope(|scope| {
            let from_elsewhere = || {
                // SAFETY: it concerns this thread alone.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.ok()?;
                Channel::connect(&dir, mailbox.name()).ok()
            };
            scope.spawn(from_elsewhere).join().unwrap()
        });
        // Without the right to make a network namespace there is nothing to see.
        if let Some(far) = far {
            assert!(!far.is_near() && !mailbox.accept().unwrap().unwrap().is_near());
        }
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
