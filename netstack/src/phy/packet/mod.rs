//! The port that works everywhere: AF_PACKET, with a ring for received frames that is shared with the kernel. To open it
//! needs CAP_NET_RAW; a process that has it can open a [`Queue`] for one that has not.
//!
//! Frames go through the kernel's driver and past its protocols. The kernel sees what arrives as well: hold a
//! [`super::Reserved`]. Frames of one size to one host leave together as one frame, which hardware cuts up, and what
//! hardware or the kernel has joined arrives so.

mod filter;
mod inbox;
mod outbox;
mod queue;
mod ring;
mod send;
mod wishes;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, getsockname, sockopt};

use super::sys::{Fd, Map, option};
use super::{Capabilities, Features, Frame, Interface, Port, PortCounters, RETRY, Trouble, Wanted};
use crate::time::Instant;
use crate::wire::frame::Segments;

use inbox::Inbox;
use outbox::{Outbox, Parcel};
use queue::check;
pub use queue::{PacketOptions, Queue, Shape};
use ring::Ring;
use wishes::WISHES;

#[derive(Debug)]
pub struct PacketPort {
    capabilities: Capabilities,
    socket: Fd,
    map: Map,
    receiving: Ring,
    inbox: Inbox,
    outbox: Outbox,
    /// The slot at the end of `receiving` was given out.
    held: bool,
    /// The driver was full: when to ask it again.
    retry: Option<Instant>,
    /// How often in a row it has not taken the frame that is first and joined.
    refusals: u32,
    counters: PortCounters,
}

/// A joined frame that was refused so often, for a millisecond, is not refused because the driver is full.
const MOST_REFUSALS: u32 = 50;

/// What is in the slot at our end.
enum Found {
    /// A frame, from here on, so long.
    Frame(usize, usize),
    /// Frames that are in the inbox now.
    Joined,
    Nothing,
}

impl PacketPort {
    /// Opens the interface, in the network namespace of the calling thread.
    pub fn open(
        interface: &Interface,
        wanted: &Wanted,
        options: PacketOptions,
    ) -> io::Result<PacketPort> {
        let Queue { socket, shape } = Queue::open(interface, wanted, options)?;
        PacketPort::map(socket, shape)
    }

    /// A [`Queue`] that another has opened; needs no privilege. `EINVAL` if that is not what it is, or
    /// not as long as it should be. The shape must be the queue's own: the kernel tells nobody how the
    /// memory is divided.
    pub fn over(queue: OwnedFd, shape: Shape) -> io::Result<PacketPort> {
        let socket = Fd::from(queue);
        check(&socket)?;
        PacketPort::map(socket, shape)
    }

    fn map(socket: Fd, shape: Shape) -> io::Result<PacketPort> {
        let ring = shape.ring().ok_or(Errno::INVAL)?;
        // The kernel refuses any length but that of the ring (af_packet.c, `packet_mmap`).
        let map = Map::of(&socket, 0, ring.bytes())?;
        let features = features(&socket);
        let capabilities = shape.capabilities(features);
        let mut outbox = Outbox::new(capabilities.frame(), shape.send_slots as usize);
        outbox.completes = features.checksums_sent;
        outbox.joins = features.checksums_sent && features.segments;
        Ok(PacketPort {
            capabilities,
            socket,
            map,
            receiving: Ring::new(ring),
            inbox: Inbox::new(),
            outbox,
            held: false,
            retry: None,
            refusals: 0,
            counters: PortCounters::default(),
        })
    }

    /// Whether `receive` would find anything, or has something to give back. It costs one load.
    #[inline]
    pub fn has_frames(&self) -> bool {
        self.receiving.status(&self.map) & libc::TP_STATUS_USER != 0 || !self.inbox.is_empty()
    }

    /// What is in the slot at our end, as far as it is ours.
    fn look(&mut self, status: u32) -> Found {
        let found = self.receiving.description(&self.map);
        // The interface of a VLAN is another one; number zero is only a priority.
        let is_foreign = status & libc::TP_STATUS_VLAN_VALID != 0 && found.vlan != 0;
        let room = self.receiving.slot_size().saturating_sub(found.at);
        let is_whole = found.present == found.length && found.present <= room;
        let is_joined = self.receiving.wishes(&self.map, found.at).is_joined();
        if is_whole && !is_joined && !is_foreign {
            return Found::Frame(found.at, found.present);
        }
        // Also what is not ours has to be taken out of the queue.
        let largest = self.capabilities.frame();
        let taken = if status & libc::TP_STATUS_COPY != 0 {
            self.inbox.fetch(&self.socket, largest)
        } else if is_whole && is_joined {
            let (start, length) = (found.at - WISHES, WISHES + found.present);
            let bytes = self.receiving.bytes(&self.map, start, length);
            // SAFETY: inside the slot, which is ours until `give_back`.
            let bytes = unsafe { core::slice::from_raw_parts(bytes, length) };
            self.inbox.copy(bytes, largest)
        } else {
            false
        };
        if is_foreign {
            self.inbox.clear();
            self.counters.foreign += 1;
        } else if taken {
            return Found::Joined;
        } else {
            self.counters.truncated += 1;
        }
        Found::Nothing
    }

    /// Sends what waits; `Err` says why the first of it does not leave.
    fn send(&mut self) -> Result<(), Errno> {
        while !self.outbox.is_empty() {
            self.counters.calls += 1;
            let (parcels, memory) = self.outbox.waiting();
            let sent = send::send(&self.socket, parcels, memory)?;
            self.outbox.leave(sent);
            self.refusals = 0;
        }
        Ok(())
    }

    /// Whether the first parcel, which was refused, has left after all, or is given up.
    fn get_rid(&mut self, why: Errno) -> bool {
        let Some(first) = self.outbox.first() else {
            return true;
        };
        let segment = first.joined.and_then(|joined| joined.segment());
        let gone = match (why, segment) {
            (Errno::INVAL, Some(segment)) => self.send_apart(&first, segment),
            // The driver is full, or the kernel would have to cut the frame up: it does not on the direct way.
            (Errno::NOBUFS, Some(segment)) => {
                self.refusals += 1;
                let is_able = features(&self.socket).segments && self.refusals < MOST_REFUSALS;
                !is_able && self.send_apart(&first, segment)
            }
            // The MTU has become smaller, or it is no frame at all: it is lost, as on any network.
            (Errno::MSGSIZE | Errno::INVAL, _) => true,
            _ => false,
        };
        if gone {
            self.outbox.leave(1);
        }
        gone
    }

    /// Nobody cuts joined frames up here: from now on none are joined, and those of this parcel leave one by one. What
    /// is refused then is lost, as on any network.
    fn send_apart(&mut self, parcel: &Parcel, segment: usize) -> bool {
        self.outbox.joins = false;
        self.refusals = 0;
        let bytes = self.outbox.bytes(parcel);
        let Some(mut segments) = Segments::of(bytes, segment) else {
            return true;
        };
        while let Some(place) = segments.cut(bytes) {
            self.counters.calls += 1;
            let alone = Parcel::new(bytes, place);
            let _ = send::send(&self.socket, &[alone], bytes);
        }
        true
    }
}

/// Of the interface that a socket is bound to.
fn features(socket: &Fd) -> Features {
    let name = || {
        let address = getsockname(socket)?;
        if address.address_family() != AddressFamily::PACKET {
            return Err(Errno::INVAL);
        }
        // SAFETY: an address of this family is a `sockaddr_ll`, and the storage has room for any.
        let index = unsafe { (*address.as_ptr().cast::<libc::sockaddr_ll>()).sll_ifindex };
        index_to_name(socket, index as u32)
    };
    name().map_or(Features::default(), |name| {
        Features::of(socket.as_fd(), &name)
    })
}

impl Port for PacketPort {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<Frame<'_>> {
        if core::mem::take(&mut self.held) {
            self.receiving.give_back(&self.map);
        }
        loop {
            if let Some(place) = self.inbox.next() {
                self.counters.frames_received += 1;
                self.counters.bytes_received += place.len() as u64;
                return Some(Frame {
                    bytes: self.inbox.bytes(place),
                    checked: true,
                });
            }
            let status = self.receiving.status(&self.map);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let Found::Frame(at, length) = self.look(status) else {
                self.receiving.give_back(&self.map);
                continue;
            };
            self.held = true;
            self.counters.frames_received += 1;
            self.counters.bytes_received += length as u64;
            let bytes = self.receiving.bytes(&self.map, at, length);
            return Some(Frame {
                // SAFETY: inside the slot, which is ours until `give_back`; that needs `self`, which
                // the frame borrows.
                bytes: unsafe { core::slice::from_raw_parts(bytes, length) },
                // Not ready: the kernel that sent it has left it to hardware that was never there.
                checked: status & (libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY) != 0,
            });
        }
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.outbox.slot()
    }

    fn commit(&mut self, length: usize) {
        if !self.outbox.commit(length) {
            self.counters.refused += 1;
            return;
        }
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += length as u64;
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.retry = None;
        self.outbox.close();
        while let Err(why) = self.send() {
            if self.get_rid(why) {
                continue;
            }
            match why {
                // The driver or the buffer is full.
                Errno::AGAIN | Errno::NOBUFS => {
                    self.retry = Some(now + RETRY);
                    break;
                }
                // It may be an error of the past, which is told once.
                Errno::NETDOWN => self.send()?,
                errno => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry
    }

    fn lie_down(&mut self) -> bool {
        self.inbox.is_empty()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno.into()),
        }
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&mut self) -> PortCounters {
        let none = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        // Reading it sets it back.
        let name = libc::PACKET_STATISTICS;
        let new = option(&self.socket, libc::SOL_PACKET, name, none).unwrap_or(none);
        self.counters.overruns += u64::from(new.tp_drops);
        self.counters
    }
}
