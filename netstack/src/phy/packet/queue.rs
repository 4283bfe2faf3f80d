//! What of a port needs CAP_NET_RAW: the socket, with its filter and its rings, before anybody has
//! mapped them. A privileged process opens it and gives it to another, which makes a
//! [`super::PacketPort`] of it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::filter::filter;
use super::ring::SlotLayout;
use crate::phy::sys::{Fd, Plain, attach_filter, option, set_option, syscall};
use crate::phy::{Capabilities, Features, Interface, Wanted};
use crate::wire::frame::{ETHERNET, Offload};

/// Bytes of frames that may be with the driver; the kernel's default stops at some hundred frames.
const SEND_BUFFER: usize = 8 << 20;
/// Bytes of frames that are longer than a slot and wait to be fetched, as the kernel counts them: some 50 of the longest.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The version of the rings.
const VERSION: i32 = libc::tpacket_versions::TPACKET_V2 as i32;

/// What IPv4 needs at least (RFC 791, 3.2), and the most it can say.
const MTU: core::ops::RangeInclusive<u32> = 68..=65535;

#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// Frames that can wait to be received, a power of two, and to be sent.
    pub receive_slots: usize,
    pub send_slots: usize,
    /// Past the queueing discipline, straight to the driver: sooner, but a full driver loses frames.
    pub direct: bool,
}

impl Default for PacketOptions {
    fn default() -> PacketOptions {
        PacketOptions {
            receive_slots: 1024,
            send_slots: 256,
            direct: true,
        }
    }
}

/// Frames gather in it from the time it is opened, as far as there is room.
///
/// Only one process may use the ring, and no other one after it: the kernel does not tell its position in
/// it, so that a second process would start in the wrong place. A process that opens a queue for another
/// closes it, or keeps the descriptor and does not map it.
///
/// A process that has the descriptor receives what the filter lets through, and the filter is locked; but
/// the process can send any frame, on any interface of the network namespace.
#[derive(Debug)]
pub struct Queue {
    pub(super) socket: Fd,
    pub(super) shape: Shape,
}

/// What a process that is given a queue has to know about it: numbers for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub mtu: u32,
    /// The interface's hardware address.
    pub address: [u8; 6],
    /// A power of two.
    pub receive_slots: u32,
    pub send_slots: u32,
}

/// Frames that wait to be sent take memory of the process that sends them.
const SEND_SLOTS: core::ops::RangeInclusive<u32> = 1..=1 << 16;

impl Queue {
    /// Opens the interface, in the network namespace of the calling thread.
    pub fn open(
        interface: &Interface,
        wanted: &Wanted,
        options: PacketOptions,
    ) -> io::Result<Queue> {
        if !wanted.is_sound() {
            return Err(Errno::INVAL);
        }
        let shape = Shape::new(interface, options).ok_or(Errno::INVAL)?;
        let ring = shape.ring().ok_or(Errno::INVAL)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol nothing arrives before `bind`.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let socket = Fd::from(socket);
        attach_filter(&socket, &filter(wanted))?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1)?;
        set_up(&socket, options)?;
        set(&socket, libc::PACKET_RX_RING, &ring.request())?;
        bind(&socket, interface.index)?;
        Ok(Queue { socket, shape })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }
}

impl Shape {
    fn new(interface: &Interface, options: PacketOptions) -> Option<Shape> {
        let receiving = SlotLayout::new(ETHERNET + interface.mtu, options.receive_slots);
        Some(Shape {
            mtu: u32::try_from(interface.mtu).ok()?,
            address: interface.address,
            receive_slots: u32::try_from(receiving.count).ok()?,
            send_slots: u32::try_from(options.send_slots).ok()?,
        })
    }

    pub(super) fn capabilities(&self, features: Features) -> Capabilities {
        Capabilities {
            mtu: self.mtu as usize,
            address: self.address,
            offload: Offload {
                udp_sent: features.checksums_sent,
                udp_received: false,
            },
        }
    }

    fn frame(&self) -> usize {
        ETHERNET + self.mtu as usize
    }

    /// Where received frames are; `None` if no queue has this shape.
    pub(super) fn ring(&self) -> Option<SlotLayout> {
        if !MTU.contains(&self.mtu) || !SEND_SLOTS.contains(&self.send_slots) {
            return None;
        }
        let count = self.receive_slots as usize;
        let layout = SlotLayout::new(self.frame(), count);
        (layout.count == count).then_some(layout)
    }
}

/// Whether it can be a queue at all: other files can be mapped as well.
pub(super) fn check(socket: &Fd) -> io::Result<()> {
    let is_packet = sockopt::socket_domain(socket)? == AddressFamily::PACKET
        && sockopt::socket_type(socket)? == SocketType::RAW;
    let has = |name, value| Ok(option(socket, libc::SOL_PACKET, name, 0)? == value);
    let is_queue =
        is_packet && has(libc::PACKET_VERSION, VERSION)? && has(libc::PACKET_VNET_HDR, 1)?;
    is_queue.then_some(()).ok_or(Errno::INVAL)
}

fn set<T: Plain>(socket: &Fd, name: i32, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, name, value)
}

fn set_up(socket: &Fd, options: PacketOptions) -> io::Result<()> {
    set(socket, libc::PACKET_VERSION, &VERSION)?;
    // What hardware is to do and has done with each frame: see `Wishes`.
    set(socket, libc::PACKET_VNET_HDR, &1)?;
    set(socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
    // Frames that are longer than a slot are kept whole: see `Inbox`.
    set(socket, libc::PACKET_COPY_THRESH, &1)?;
    set(
        socket,
        libc::PACKET_QDISC_BYPASS,
        &i32::from(options.direct),
    )?;
    // Beyond the limit for all, or up to it.
    sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER))?;
    sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER))
}

fn bind(socket: &Fd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let fd = socket.as_fd().as_raw_fd() as usize;
    let args = [fd, &raw const address as usize, size_of_val(&address)];
    // SAFETY: the kernel reads an address that outlives the call.
    unsafe { syscall(libc::SYS_bind, args)? };
    Ok(())
}
