//! The port that works everywhere: AF_PACKET, with a ring in each direction that is shared with the
//! kernel. To open it needs CAP_NET_RAW; a process that has it can open a [`Queue`] for one that has not.
//!
//! Frames go through the kernel's driver and past its protocols. The kernel sees what arrives as well:
//! hold a [`super::Reserved`].

mod filter;
mod queue;
mod ring;
mod shrunk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{self, Errno};
use rustix::net::{SendFlags, send, sockopt};

use super::sys::{Fd, Map, option};
use super::{Capabilities, Frame, Interface, Port, PortCounters, RETRY, Trouble, Wanted};
use crate::time::Instant;
use crate::wire::frame::ETHERNET;

use queue::check;
pub use queue::{PacketOptions, Queue, Shape};
use ring::{FRAME_AT, Ring};

#[derive(Debug)]
pub struct PacketPort {
    capabilities: Capabilities,
    socket: Fd,
    map: Map,
    receiving: Ring,
    sending: Ring,
    /// The slot at the end of `receiving` was given out.
    held: bool,
    /// Frames are committed that the kernel has not taken.
    pending: bool,
    /// The driver was full: when to ask it again.
    retry: Option<Instant>,
    counters: PortCounters,
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
        let (receiving, sending) = shape.rings().ok_or(Errno::INVAL)?;
        // The kernel refuses any length but that of both rings (af_packet.c, `packet_mmap`).
        let map = Map::of(&socket, 0, receiving.bytes() + sending.bytes())?;
        Ok(PacketPort {
            capabilities: shape.capabilities(),
            socket,
            map,
            receiving: Ring::new(receiving, 0),
            sending: Ring::new(sending, receiving.bytes()),
            held: false,
            pending: false,
            retry: None,
            counters: PortCounters::default(),
        })
    }

    /// Whether `receive` would find anything, or has something to give back. It costs one load.
    #[inline]
    pub fn has_frames(&self) -> bool {
        self.receiving.status(&self.map) & libc::TP_STATUS_USER != 0
    }

    /// The frame in the slot at our end, if it is a whole one and ours.
    fn look(&mut self, status: u32) -> Option<(usize, usize)> {
        let found = self.receiving.description(&self.map);
        // The interface of a VLAN is another one; number zero is only a priority.
        if status & libc::TP_STATUS_VLAN_VALID != 0 && found.vlan != 0 {
            self.counters.foreign += 1;
            return None;
        }
        let room = self.receiving.slot_size().saturating_sub(found.at);
        if found.present < found.length || found.present > room {
            self.counters.truncated += 1;
            return None;
        }
        Some((found.at, found.present))
    }

    fn give_back(&mut self) {
        self.receiving.give(&self.map, libc::TP_STATUS_KERNEL);
        self.receiving.advance();
    }

    fn send(&mut self) -> Result<(), Errno> {
        self.counters.calls += 1;
        send(&self.socket, &[], SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Whether the kernel has taken all that is committed.
    fn is_all_sent(&self) -> bool {
        self.sending.status_before(&self.map) != libc::TP_STATUS_SEND_REQUEST
    }
}

impl Port for PacketPort {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<Frame<'_>> {
        if core::mem::take(&mut self.held) {
            self.give_back();
        }
        loop {
            let status = self.receiving.status(&self.map);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let Some((at, length)) = self.look(status) else {
                self.give_back();
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
        if self.sending.status(&self.map) != libc::TP_STATUS_AVAILABLE {
            return None;
        }
        let length = self.capabilities.frame();
        let bytes = self.sending.bytes(&self.map, FRAME_AT, length);
        // SAFETY: inside the slot, which is ours until `commit`; that needs `self`, which the slice
        // borrows. All bytes are initialised: the kernel clears a ring.
        Some(unsafe { core::slice::from_raw_parts_mut(bytes, length) })
    }

    fn commit(&mut self, length: usize) {
        let is_ours = self.sending.status(&self.map) == libc::TP_STATUS_AVAILABLE;
        if !(ETHERNET..=self.capabilities.frame()).contains(&length) || !is_ours {
            self.counters.refused += 1;
            return;
        }
        self.sending.describe_own(&self.map, length);
        self.sending.give(&self.map, libc::TP_STATUS_SEND_REQUEST);
        self.sending.advance();
        self.pending = true;
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += length as u64;
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.retry = None;
        while self.pending {
            match self.send() {
                Ok(()) => self.pending = !self.is_all_sent(),
                Err(Errno::NOBUFS)
                    if shrunk::lose_first(&self.socket, &self.sending, &self.map) => {}
                // The driver or the buffer is full.
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    self.retry = Some(now + RETRY);
                    break;
                }
                // It may be an error of the past, which is told once.
                Err(Errno::NETDOWN) => self.send()?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry
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
