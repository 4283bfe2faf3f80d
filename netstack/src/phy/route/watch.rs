//! What changes in the kernel's routes, neighbours, addresses and interfaces.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use rustix::io::{self, Errno};

use super::message::{Message, address, messages, u32_at};
use super::netlink::Netlink;
use super::{LINK, NEIGHBOUR};

/// What should be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The hardware address of a neighbour.
    Neighbour { interface: u32, address: IpAddr },
    /// An interface: up, down, MTU, hardware address, gone.
    Interface(u32),
    /// Routes, rules or our own addresses.
    Routes,
    /// There was too much to tell.
    All,
}

/// Hears of changes in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Watch(Netlink);

/// Group n is bit n - 1 (`RTNLGRP_*`).
const GROUPS: [u32; 9] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV6_RULE,
    // RTNLGRP_NEXTHOP
    32,
];

impl Watch {
    pub fn open() -> io::Result<Watch> {
        let bits = GROUPS.iter().fold(0, |bits, group| bits | 1 << (group - 1));
        Netlink::open(bits).map(Watch)
    }

    /// Becomes readable when something has changed.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// All changes since the last time. After some were lost, [`Change::All`].
    pub fn changes(&mut self, mut tell: impl FnMut(Change)) -> io::Result<()> {
        loop {
            match self.0.read() {
                Ok(Some(bytes)) => messages(bytes)
                    .filter_map(|m| change(&m))
                    .for_each(&mut tell),
                Ok(None) => return Ok(()),
                Err(Errno::NOBUFS) => tell(Change::All),
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn change(message: &Message<'_>) -> Option<Change> {
    let interface = || u32_at(message.body, 4);
    match message.kind {
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
            let attributes = message.attributes(NEIGHBOUR);
            Some(Change::Neighbour {
                interface: interface()?,
                address: attributes.find(libc::NDA_DST).and_then(address)?,
            })
        }
        libc::RTM_NEWLINK | libc::RTM_DELLINK if message.body.len() >= LINK => {
            interface().map(Change::Interface)
        }
        _ => Some(Change::Routes),
    }
}
