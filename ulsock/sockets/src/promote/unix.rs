//! Unix sockets: who is at the other end. The kernel tells of each socket in our network namespace which one it is
//! connected to (sock_diag), under a number that lives as long as the socket, with its cookie and whose it is. If two
//! sockets name each other there, they are the ends of one connection. Whoever is in another network namespace cannot be asked
//! about, and stays on the kernel.

use std::os::fd::BorrowedFd;

use rustix::net::sockopt;
use rustix::process::geteuid;

use super::attempt::{Attempt, Progress, pair_with};
use super::unhooked;
use crate::conn::socket_options;
use crate::state::control::Control;
use crate::state::record::{Record, Role};
use os::unix::{self, OtherEnd};
use os::{tcp, users};
use rendezvous::offers::Key;
use rendezvous::reason::Reason;

impl Attempt<'_> {
    pub(super) fn unix_key(&self) -> Result<Key, Reason> {
        let (local, peer) = self.inodes()?;
        let netns = tcp::netns_cookie(self.socket).map_err(|_| Reason::Call)?;
        Ok(match self.record.role() {
            Role::Connected => Key::of_unix(netns, local, peer),
            Role::Accepted => Key::of_unix(netns, peer, local),
        })
    }

    /// The numbers of both sockets. The other one has none until it is accepted.
    fn inodes(&self) -> Result<(u32, u32), Reason> {
        if let Some(known) = self.record.inodes() {
            return Ok(known);
        }
        let number = |inode: u64| u32::try_from(inode).map_err(|_| Reason::Identity);
        let local = unix::inode(self.socket).map_err(|_| Reason::Call)?;
        let peer = unix::receiver_of(self.socket).map_err(|_| Reason::Identity)?;
        let ends = (number(local)?, number(peer.ok_or(Reason::NoPeer)?)?);
        self.record.set_inodes(ends.0, ends.1);
        Ok(ends)
    }

    pub(super) fn as_accepted_unix(&self, control: &mut Control) -> Result<Progress, Reason> {
        let key = self.key()?;
        if control.is_offered_by_nobody(&key) {
            return Err(Reason::NoPeer);
        }
        self.check_kind()?;
        let other = other_end(self.record, self.socket).ok_or(Reason::Identity)?;
        let offer = control.find_offer(&key, other.uid).ok_or(Reason::NoPeer)?;
        if offer.cookie != other.cookie {
            return Err(Reason::Identity);
        }
        let pair = pair_with(control, &offer, other.uid)?;
        if !pair.is_near() {
            return Err(Reason::Identity);
        }
        self.claim(control, &pair, offer.cookie)
    }

    pub(super) fn check_unix_kind(&self) -> Result<(), Reason> {
        if let Some(reason) = unhooked::found() {
            return Err(reason);
        }
        let unfit = rustix::net::getpeername(self.socket).is_err()
            || socket_options::is_asynchronous(self.socket)
            || socket_options::needs_kernel(self.socket);
        if unfit { Err(Reason::Call) } else { Ok(()) }
    }
}

/// The socket at the other end, as the kernel knows it now. Its number may be another's too, after 2^32 sockets have come
/// and gone: so it must be ours, or of who has called `connect` or `listen` there, or of a server that root has started.
pub(super) fn other_end(record: &Record, socket: BorrowedFd<'_>) -> Option<OtherEnd> {
    let (local, peer) = record.inodes()?;
    let other = unix::other_end(local, peer).ok().flatten()?;
    let began = sockopt::socket_peercred(socket).ok()?.uid;
    let is_likely =
        other.uid == geteuid().as_raw() || other.uid == began.as_raw() || began.is_root();
    (is_likely && users::names_one_user(other.uid)).then_some(other)
}
