//! What of a port needs CAP_NET_RAW: the socket, with its filter and its rings, before anybody has
//! mapped them. A privileged process opens it and gives it to another, which makes a
//! [`super::PacketPort`] of it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::filter::filter;
use super::ring::SlotLayout;
use crate::phy::sys::{Fd, Plain, attach_filter, option, set_option, syscall};
use crate::phy::{Capabilities, Interface, Wanted};
use crate::wire::frame::{ETHERNET, Offload};

/// Bytes of frames that may be with the driver; the kernel's default stops at some hundred frames.
const SEND_BUFFER: usize = 8 << 20;

/// The version of the rings.
const VERSION: i32 = libc::tpacket_versions::TPACKET_V2 as i32;

/// What IPv4 needs at least (RFC 791, 3.2), and the most it can say.
const MTU: core::ops::RangeInclusive<u32> = 68..=65535;

#[derive(Clone, Copy, Debug)]
pub struct PacketOptions {
    /// Frames that can wait to be received, and to be sent; powers of two.
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
/// Only one process may use the rings, and no other one after it: the kernel does not tell its position in
/// them, so that a second process would start in the wrong place. A process that opens a queue for another
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
    /// Powers of two.
    pub receive_slots: u32,
    pub send_slots: u32,
}

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
        let (receiving, sending) = shape.rings().ok_or(Errno::INVAL)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol nothing arrives before `bind`.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let socket = Fd::from(socket);
        attach_filter(&socket, &filter(wanted))?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1)?;
        set_up(&socket, options)?;
        set(&socket, libc::PACKET_RX_RING, &receiving.request())?;
        set(&socket, libc::PACKET_TX_RING, &sending.request())?;
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
        let slots = |count| {
            let layout = SlotLayout::new(ETHERNET + interface.mtu, count);
            u32::try_from(layout.count).ok()
        };
        Some(Shape {
            mtu: u32::try_from(interface.mtu).ok()?,
            address: interface.address,
            receive_slots: slots(options.receive_slots)?,
            send_slots: slots(options.send_slots)?,
        })
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu as usize,
            address: self.address,
            offload: Offload::default(),
        }
    }

    /// Where received frames are, and those to send behind them; `None` if no queue has this shape.
    pub(super) fn rings(&self) -> Option<(SlotLayout, SlotLayout)> {
        let ring = |count: u32| {
            let layout = SlotLayout::new(self.capabilities().frame(), count as usize);
            (layout.count == count as usize).then_some(layout)
        };
        if !MTU.contains(&self.mtu) {
            return None;
        }
        Some((ring(self.receive_slots)?, ring(self.send_slots)?))
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
    // With it the kernel copies a short frame instead of lending its page out; see `Ring::describe`.
    set(socket, libc::PACKET_VNET_HDR, &1)?;
    set(socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
    // A frame that the interface does not take (its MTU has shrunk) must not hold up the others.
    set(socket, libc::PACKET_LOSS, &1)?;
    set(
        socket,
        libc::PACKET_QDISC_BYPASS,
        &i32::from(options.direct),
    )?;
    // Beyond the limit for all, or up to it.
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
