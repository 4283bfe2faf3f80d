//! The port that needs no privilege: UDP sockets of the kernel, each connected to one peer. It works
//! wherever UDP does: through routers, tunnels, bonds and VLANs.
//!
//! The kernel computes and checks checksums, or leaves them to the NIC. Frames to one peer and of one length
//! leave in one call, cut apart by the kernel or the NIC (UDP_SEGMENT), and arrive in one call (UDP_GRO).
//! What leaves is the datagram in a frame, by the socket that is connected to where the frame goes; what
//! arrives gets headers made from the socket's addresses. Opening a socket ([`Connected`]) and using it are
//! apart: another process may do the first.

mod filter;
mod inbox;
mod message;
mod outbox;
mod peer;
mod socket;

use core::ptr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::vec::Vec;

use rustix::event::{Timespec, epoll};
use rustix::io::{self, Errno};

use super::sys::Fd;
use super::{Capabilities, Frame, Port, PortCounters, RETRY, Trouble};
use crate::time::Instant;
use crate::wire::Addresses;
use crate::wire::frame::{ETHERNET, Offload};
use inbox::Inbox;
use outbox::{Outbox, Parcel, SLOTS};
use peer::Peer;
pub use socket::Connected;

/// Bytes of IP: the link needs no less (docs/link.md), and no datagram has more.
const SMALLEST_MTU: usize = 1200;
const LARGEST_MTU: usize = 65_535;
/// With several sockets, looks in a row at the one that something came by last.
const LOOKS: u32 = 4;
/// Sockets that are asked for at a time.
const READY: usize = 16;

const NO_PIECE: libc::iovec = libc::iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

const OFFLOAD: Offload = Offload {
    udp_sent: true,
    udp_received: true,
};

#[derive(Debug)]
pub struct UdpPort {
    mtu: usize,
    peers: Vec<Peer>,
    /// An epoll set of all sockets.
    wake: Fd,
    outbox: Outbox,
    inbox: Inbox,
    /// Sockets that something has come by, as the set has said.
    ready: Vec<usize>,
    /// The socket of the last frame in either direction.
    recent: usize,
    looks: u32,
    /// The kernel was full: when to ask it again.
    retry: Option<Instant>,
    trouble: Option<Trouble>,
    counters: PortCounters,
}

impl UdpPort {
    /// Without a peer yet; for frames with so many bytes of IP, as far as they fit into a datagram. `EINVAL` if they
    /// are too few.
    pub fn new(mtu: usize) -> io::Result<UdpPort> {
        UdpPort::with_set(epoll::create(epoll::CreateFlags::CLOEXEC)?, mtu)
    }

    /// The same, with an epoll set that nothing is in.
    pub fn with_set(set: OwnedFd, mtu: usize) -> io::Result<UdpPort> {
        let wake = Fd::from(set);
        if mtu < SMALLEST_MTU {
            return Err(Errno::INVAL);
        }
        let mtu = mtu.min(LARGEST_MTU);
        Ok(UdpPort {
            mtu,
            peers: Vec::new(),
            wake,
            outbox: Outbox::new(ETHERNET + mtu),
            inbox: Inbox::new(),
            ready: Vec::with_capacity(READY),
            recent: 0,
            looks: 0,
            retry: None,
            trouble: None,
            counters: PortCounters::default(),
        })
    }

    /// Sockets that this process or another has opened; frames as long as the route that takes the longest.
    pub fn over(sockets: Vec<OwnedFd>) -> io::Result<UdpPort> {
        let peers = sockets.into_iter().map(|it| Peer::new(Fd::from(it)));
        let peers = peers.collect::<io::Result<Vec<_>>>()?;
        let mtu = peers.iter().map(|peer| peer.mtu).max().unwrap_or(0);
        let mut port = UdpPort::new(mtu)?;
        for peer in peers {
            port.enter(peer)?;
        }
        Ok(port)
    }

    /// A [`Connected`] socket: both its ends. `EINVAL`, `ENOTCONN` if that is not what it is, `EEXIST` if there is
    /// one between the same ends.
    pub fn add(&mut self, socket: OwnedFd) -> io::Result<Addresses> {
        self.enter(Peer::new(Fd::from(socket))?)
    }

    fn enter(&mut self, peer: Peer) -> io::Result<Addresses> {
        let ends = peer.ends;
        if self.has(&ends) {
            return Err(Errno::EXIST);
        }
        let data = epoll::EventData::new_u64(self.peers.len() as u64);
        epoll::add(&self.wake, &peer.socket, data, epoll::EventFlags::IN)?;
        self.peers.push(peer);
        Ok(ends)
    }

    fn has(&self, ends: &Addresses) -> bool {
        self.peers.iter().any(|peer| peer.ends == *ends)
    }

    /// The descriptors that it has.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sockets = self.peers.iter().map(|peer| peer.socket.as_fd());
        sockets.chain([self.wake.as_fd()])
    }

    /// Nothing leaves or arrives between these ends any more.
    pub fn remove(&mut self, ends: &Addresses) -> Option<OwnedFd> {
        let at = self.peers.iter().position(|peer| peer.ends == *ends)?;
        let _ = epoll::delete(&self.wake, &self.peers[at].socket);
        let removed = self.peers.remove(at);
        for (number, peer) in self.peers.iter().enumerate().skip(at) {
            let data = epoll::EventData::new_u64(number as u64);
            let _ = epoll::modify(&self.wake, &peer.socket, data, epoll::EventFlags::IN);
        }
        // Numbers have changed: what waits is lost, as on any network.
        self.outbox.remove(SLOTS);
        self.inbox.clear();
        self.ready.clear();
        self.recent = 0;
        Some(removed.socket.into_owned())
    }

    /// Whether `receive` would find anything: with one socket one call, which keeps what it gets.
    #[inline]
    pub fn has_frames(&mut self) -> bool {
        if !self.inbox.is_empty() {
            return true;
        }
        self.looks = self.looks.wrapping_add(1);
        match self.looks.is_multiple_of(LOOKS) {
            false => self.fill(self.recent),
            true => self.look(),
        }
    }

    /// Takes in what has come by any of the sockets.
    fn look(&mut self) -> bool {
        if self.peers.len() <= 1 {
            return self.fill(0);
        }
        let mut asked = false;
        loop {
            while let Some(number) = self.ready.pop() {
                if self.fill(number) {
                    return true;
                }
            }
            if core::mem::replace(&mut asked, true) {
                return false;
            }
            self.ask();
        }
    }

    /// Which sockets something has come by.
    fn ask(&mut self) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; READY];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.counters.calls += 1;
        let count = epoll::wait(&self.wake, &mut events, Some(&now)).unwrap_or(0);
        let numbers = events[..count]
            .iter()
            .map(|event| event.data.u64() as usize);
        self.ready.extend(numbers);
    }

    /// Takes in what has come by this socket.
    fn fill(&mut self, number: usize) -> bool {
        let Some(peer) = self.peers.get(number) else {
            return false;
        };
        self.counters.calls += 1;
        let filled = match self.inbox.fill(number, &peer.socket) {
            // Something was refused once (ICMP), which is told once.
            Err(why) if why != Errno::AGAIN => self.inbox.fill(number, &peer.socket),
            other => other,
        };
        let filled = filled.unwrap_or(false);
        if filled {
            self.recent = number;
        }
        filled
    }

    /// The socket that a frame leaves by, and where its datagram is.
    #[inline]
    fn find(&self, frame: &[u8]) -> Option<Parcel> {
        let parcel = |socket: usize| {
            let (at, service) = self.peers.get(socket)?.takes(frame)?;
            Some(Parcel {
                socket,
                service,
                at,
                length: frame.len() - at,
            })
        };
        parcel(self.recent).or_else(|| (0..self.peers.len()).find_map(parcel))
    }

    /// Sends the first `count` frames that wait, which are alike.
    fn send(&mut self, first: &Parcel, count: usize) -> io::Result<()> {
        let peer = self.peers.get_mut(first.socket).ok_or(Errno::NOTCONN)?;
        peer.mark(first.service);
        let mut pieces = [NO_PIECE; SLOTS];
        let filled = self.outbox.pieces(count, &mut pieces);
        let segment = (count > 1).then_some(first.length as u16);
        self.counters.calls += 1;
        match message::send(&peer.socket, &pieces[..filled], segment) {
            // It may be an error of the past, which is told once.
            Err(why) if !is_full(why) => message::send(&peer.socket, &pieces[..filled], segment),
            other => other,
        }
    }
}

/// There is no room at the moment.
fn is_full(why: Errno) -> bool {
    matches!(why, Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM)
}

impl Port for UdpPort {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu,
            // The kernel has them, and tells nobody.
            address: [0; 6],
            offload: OFFLOAD,
        }
    }

    /// Opens a socket to a peer.
    fn meet(&mut self, ends: &Addresses) -> Result<(), Trouble> {
        if !self.has(ends) {
            self.add(Connected::open(ends)?.into_fd())?;
        }
        Ok(())
    }

    fn receive(&mut self, _now: Instant) -> Option<Frame<'_>> {
        loop {
            if self.inbox.is_empty() {
                let was_all = self.inbox.is_through() && self.peers.len() == 1;
                if was_all || !self.look() {
                    return None;
                }
            }
            let peer = self.peers.get(self.inbox.socket)?;
            let Some(frame) = self.inbox.next(&peer.incoming) else {
                self.counters.truncated += 1;
                continue;
            };
            self.counters.frames_received += 1;
            self.counters.bytes_received += frame.len() as u64;
            return Some(Frame {
                bytes: self.inbox.bytes(frame),
                checked: true,
            });
        }
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.outbox.slot(ETHERNET + self.mtu)
    }

    fn commit(&mut self, length: usize) {
        let fits = length <= ETHERNET + self.mtu;
        let frame = fits.then(|| self.outbox.written(length)).flatten();
        match frame.and_then(|frame| self.find(frame)) {
            Some(parcel) => {
                self.recent = parcel.socket;
                self.outbox.add(parcel);
                self.counters.frames_sent += 1;
                self.counters.bytes_sent += length as u64;
            }
            None => self.counters.refused += 1,
        }
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.retry = None;
        let mut trouble = None;
        // Frames that go one by one, because the kernel has not taken them together.
        let mut alone = 0;
        while let Some((first, run)) = self.outbox.run() {
            let cuts = alone == 0 && self.peers.get(first.socket).is_some_and(|peer| peer.cuts);
            let count = if cuts { run } else { 1 };
            match self.send(&first, count) {
                Ok(()) => {}
                Err(why) if is_full(why) => {
                    self.retry = Some(now + RETRY);
                    break;
                }
                Err(why) if count > 1 && self.peers[first.socket].refuses_to_cut(why) => {
                    alone = count;
                    continue;
                }
                // It is longer than the interface takes now, or nobody is there: it is lost, as on any network.
                Err(Errno::MSGSIZE | Errno::CONNREFUSED) => {}
                Err(why) => trouble = Some(judge(why)),
            }
            alone = alone.saturating_sub(count);
            self.outbox.remove(count);
        }
        self.trouble = trouble.or(self.trouble);
        trouble.map_or(Ok(()), Err)
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn lie_down(&mut self) -> bool {
        self.inbox.is_empty()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    fn counters(&mut self) -> PortCounters {
        let drops: u64 = self.peers.iter_mut().map(Peer::new_drops).sum();
        self.counters.overruns += drops;
        self.counters
    }
}

/// There is no way to a peer: mostly because an interface is down, and it may come up again.
fn judge(why: Errno) -> Trouble {
    match why {
        Errno::NETUNREACH | Errno::HOSTUNREACH => Trouble::Down,
        other => other.into(),
    }
}
