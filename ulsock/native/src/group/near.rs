//! The memory and the bells of another member of this host, as they were fetched from it.

use std::io;
use std::os::fd::AsFd;

use os::fds::{InternalFd, to_high};
use shm::doorbell::{DoorbellKind, Ringer};

use super::memory::{Page, Ring};
use crate::share::{self, Deposit, Ticket, Uses};

/// Ring, page, the receiver's bell and the sender's.
const PARTS: usize = 4;

/// Another member, whose page and bells are at hand.
#[derive(Debug)]
pub struct Near {
    pub page: Page,
    pub receiver_bell: Ringer,
    pub sender_bell: Ringer,
}

/// `None`: it is not to be had, or not what it should be.
pub fn fetch_member(ticket: [u8; share::LEN], ring: u64) -> Option<(Near, Ring)> {
    let ticket = Ticket::from_bytes(ticket)?;
    let fds = share::fetch(&ticket, PARTS).ok()?;
    let [ring_fd, page, receiver, sender] = <[InternalFd; PARTS]>::try_from(fds).ok()?;
    // Whoever gives descriptors by a ticket is of this user.
    let bell = |fd| Ringer::adopt(DoorbellKind::Event, fd, true).ok();
    let near = Near {
        page: Page::adopt(page.as_fd()).ok()?,
        receiver_bell: bell(receiver)?,
        sender_bell: bell(sender)?,
    };
    Some((near, Ring::adopt(ring_fd.as_fd(), ring).ok()?))
}

/// The ring of a sender on another host, at a relay.
pub fn fetch_ring(ticket: [u8; share::LEN], size: u64) -> Option<Ring> {
    let ticket = Ticket::from_bytes(ticket)?;
    let fds = share::fetch(&ticket, 1).ok()?;
    Ring::adopt(fds.first()?.as_fd(), size).ok()
}

pub fn give_ring(ring: InternalFd) -> io::Result<Deposit> {
    share::deposit(vec![ring], Uses::Any)
}

/// Everything that others of this host need of this member.
pub fn give_member(
    ring: InternalFd,
    page: InternalFd,
    bells: [impl AsFd; 2],
) -> io::Result<Deposit> {
    let mut fds = vec![ring, page];
    for bell in bells {
        fds.push(to_high(bell.as_fd().try_clone_to_owned()?)?);
    }
    share::deposit(fds, Uses::Any)
}
