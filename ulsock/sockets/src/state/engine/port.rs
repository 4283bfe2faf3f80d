//! How the frames of the engine get to the network: a queue of the NIC that the daemon leases, or UDP sockets that it
//! opens, one for each route.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};

use netstack::phy::packet::Shape;
use netstack::phy::{Capabilities, Frame, PacketPort, Port, PortCounters, Trouble, UdpPort};
use netstack::time::Instant;
use netstack::wire::Addresses;
use rustix::event::epoll;

use os::fds;
use os::fds::{InternalFd, to_high};
use rendezvous::message::Queue;

pub enum EnginePort {
    Queue { port: PacketPort, socket: RawFd },
    Sockets(UdpPort),
}

impl EnginePort {
    pub fn over_queue(queue: Queue, socket: InternalFd) -> Option<EnginePort> {
        let number = socket.as_raw_fd();
        let shape = Shape {
            mtu: queue.mtu.into(),
            address: queue.address,
            receive_slots: queue.receive_slots,
            send_slots: queue.send_slots,
        };
        let port = PacketPort::over(socket.lend(), shape).ok()?;
        Some(EnginePort::Queue {
            port,
            socket: number,
        })
    }

    /// For routes of this MTU; without any socket yet.
    pub fn over_sockets(mtu: u16) -> Option<EnginePort> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).and_then(to_high);
        let port = UdpPort::with_set(set.ok()?.lend(), mtu.into()).ok()?;
        Some(EnginePort::Sockets(port))
    }

    /// A socket that must be connected so. In place of an earlier one between the same ends.
    pub fn add(&mut self, ends: &Addresses, socket: InternalFd) -> Option<()> {
        let EnginePort::Sockets(port) = self else {
            return None;
        };
        if let Some(old) = port.remove(ends) {
            // SAFETY: the port has given it up, and it is nobody else's.
            drop(unsafe { InternalFd::left_open(old.into_raw_fd()) });
        }
        let number = socket.as_raw_fd();
        match port.add(socket.lend()) {
            Ok(found) if found == *ends => Some(()),
            Ok(found) => {
                let wrong = port.remove(&found)?;
                // SAFETY: as above.
                drop(unsafe { InternalFd::left_open(wrong.into_raw_fd()) });
                None
            }
            Err(_) => {
                fds::is_over(number);
                None
            }
        }
    }

    /// Whether `receive` would find anything, or has something to give back.
    #[inline]
    pub fn has_frames(&mut self) -> bool {
        match self {
            EnginePort::Queue { port, .. } => port.has_frames(),
            EnginePort::Sockets(port) => port.has_frames(),
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        match self {
            EnginePort::Queue { socket, .. } => vec![*socket],
            EnginePort::Sockets(port) => port.descriptors().map(|fd| fd.as_raw_fd()).collect(),
        }
    }

    /// In a forked child: all stays its parent's, and must not outlive that here.
    pub fn forget(self) {
        for number in self.descriptors() {
            // SAFETY: what is forgotten below never uses its numbers again.
            drop(unsafe { InternalFd::left_open(number) });
        }
        std::mem::forget(self);
    }
}

impl Drop for EnginePort {
    fn drop(&mut self) {
        self.descriptors().into_iter().for_each(fds::is_over);
    }
}

/// The same of whichever it is.
macro_rules! of_either {
    ($self:ident, $port:ident => $what:expr) => {
        match $self {
            EnginePort::Queue { port: $port, .. } => $what,
            EnginePort::Sockets($port) => $what,
        }
    };
}

impl Port for EnginePort {
    #[inline]
    fn capabilities(&self) -> Capabilities {
        of_either!(self, port => port.capabilities())
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> Option<Frame<'_>> {
        of_either!(self, port => port.receive(now))
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        of_either!(self, port => port.slot())
    }

    #[inline]
    fn commit(&mut self, length: usize) {
        of_either!(self, port => port.commit(length));
    }

    #[inline]
    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        of_either!(self, port => port.flush(now))
    }

    fn deadline(&self) -> Option<Instant> {
        of_either!(self, port => port.deadline())
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        of_either!(self, port => port.wake())
    }

    fn lie_down(&mut self) -> bool {
        of_either!(self, port => port.lie_down())
    }

    fn trouble(&mut self) -> Option<Trouble> {
        of_either!(self, port => port.trouble())
    }

    fn counters(&mut self) -> PortCounters {
        of_either!(self, port => port.counters())
    }
}
