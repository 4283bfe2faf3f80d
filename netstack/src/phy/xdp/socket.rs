//! An AF_XDP socket with its rings, on one queue of an interface.

use std::os::fd::AsFd;

use rustix::io::{self, Errno};
use rustix::net::sockopt as option;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpMmapOffsets,
    XdpOptionsFlags, XdpRingOffset,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::thread::{Timespec, nanosleep};

use super::Copies;
use super::ring::{Consumer, Producer, bytes};
use super::umem::{Umem, UmemShape};
use crate::phy::sys::{Fd, Map, Plain};

/// The kernel gives a queue back some 10 ms after its last socket was closed.
const TRIES: usize = 250;
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// What a socket is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub interface: u32,
    pub queue: u32,
    pub copies: Copies,
    pub scattered: bool,
}

#[derive(Debug)]
pub struct Socket {
    pub fd: Fd,
    /// Chunks for the kernel to receive into.
    pub fill: Producer<u64>,
    pub received: Consumer<XdpDesc>,
    pub sent: Producer<XdpDesc>,
    /// Chunks that the kernel has sent.
    pub completed: Consumer<u64>,
    pub zero_copy: bool,
    /// The kernel reads metadata before frames that are sent.
    pub has_metadata: bool,
}

impl Socket {
    /// Waits up to half a second for a queue that is just given back.
    pub fn open(binding: Binding, umem: &Umem, shape: UmemShape) -> io::Result<Socket> {
        for _ in 0..TRIES {
            match Socket::try_open(binding, umem, shape) {
                // A signal only makes the pause shorter.
                Err(Errno::BUSY) => drop(nanosleep(&PAUSE)),
                other => return other,
            }
        }
        Err(Errno::BUSY)
    }

    fn try_open(binding: Binding, umem: &Umem, shape: UmemShape) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = Fd::from(socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            flags,
            None,
        )?);
        let has_metadata = shape.lead > 0 && register(&fd, umem)?;
        if !has_metadata {
            option::set_xdp_umem_reg(&fd, umem.registration(false))?;
        }
        let (receiving, sending) = (shape.receiving, shape.sending());
        option::set_xdp_umem_fill_ring_size(&fd, receiving)?;
        option::set_xdp_umem_completion_ring_size(&fd, sending)?;
        option::set_xdp_rx_ring_size(&fd, receiving)?;
        option::set_xdp_tx_ring_size(&fd, sending)?;
        let XdpMmapOffsets { rx, tx, fr, cr } = option::xdp_mmap_offsets(&fd)?;
        let mut fill = Producer::new(
            map::<u64>(&fd, XDP_UMEM_PGOFF_FILL_RING, &fr, receiving)?,
            fr,
            receiving,
        );
        // All chunks fit: there are as many entries.
        let all = umem.chunks().all(|chunk| fill.push(chunk));
        debug_assert!(all);
        fill.publish();
        let completed = map::<u64>(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, &cr, sending)?;
        let received = map::<XdpDesc>(&fd, XDP_PGOFF_RX_RING, &rx, receiving)?;
        let sent = map::<XdpDesc>(&fd, XDP_PGOFF_TX_RING, &tx, sending)?;
        bind_to(&fd, binding)?;
        let options = option::xdp_options(&fd)?;
        Ok(Socket {
            fill,
            received: Consumer::new(received, rx, receiving),
            sent: Producer::new(sent, tx, sending),
            completed: Consumer::new(completed, cr, sending),
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            has_metadata,
            fd,
        })
    }
}

/// Registers the memory, with metadata. `false`: the kernel knows of none, and nothing is registered.
fn register(fd: &Fd, umem: &Umem) -> io::Result<bool> {
    match option::set_xdp_umem_reg(fd, umem.registration(true)) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn map<T: Plain>(fd: &Fd, at: u64, offsets: &XdpRingOffset, size: u32) -> io::Result<Map> {
    Map::of(fd, at, bytes::<T>(offsets, size))
}

fn bind_to(fd: &Fd, binding: Binding) -> io::Result<()> {
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    flags |= match binding.copies {
        // The kernel copies only where it must.
        Copies::IfNeeded => SocketAddrXdpFlags::empty(),
        Copies::Always => SocketAddrXdpFlags::XDP_COPY,
        Copies::Never => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    if binding.scattered {
        flags |= SocketAddrXdpFlags::XDP_USE_SG;
    }
    bind(
        fd.as_fd(),
        &SocketAddrXdp::new(flags, binding.interface, binding.queue),
    )
}
