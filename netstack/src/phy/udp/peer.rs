//! A socket of the port: whose it is, and what its frames look like.

use rustix::io::{self, Errno};

use super::socket;
use crate::phy::sys::Fd;
use crate::wire::Addresses;
use crate::wire::frame::{ETHERNET, Ecn, Offload, Route, overhead};

/// Refusals of large datagrams without a reason of their own that end the trying.
const MOST_REFUSALS: u32 = 8;

/// The longest of both ends' addresses and ports as they stand in a frame: 36 bytes of IPv6.
const ENDS: usize = 36;

#[derive(Debug)]
pub struct Peer {
    pub socket: Fd,
    pub ends: Addresses,
    pub mtu: usize,
    /// The headers of what comes from it.
    pub incoming: Route,
    /// Where both addresses and ports are in a frame to it, and what they are.
    ends_at: usize,
    ends_bytes: [u8; ENDS],
    overhead: usize,
    /// What the socket marks datagrams with.
    service: u8,
    /// The kernel cuts large datagrams into several; how often it has refused to.
    pub cuts: bool,
    refusals: u32,
    /// Datagrams dropped, as last asked.
    drops: u32,
}

impl Peer {
    pub fn new(socket: Fd) -> io::Result<Peer> {
        let (ends, mtu) = socket::check(&socket)?;
        let back = Addresses {
            source: ends.destination,
            destination: ends.source,
        };
        let incoming = Route::new([0; 6], [0; 6], &back).ok_or(Errno::INVAL)?;
        let outgoing = Route::new([0; 6], [0; 6], &ends).ok_or(Errno::INVAL)?;
        let overhead = overhead(&ends);
        let mut headers = [0; 64];
        let offload = Offload {
            udp_sent: true,
            udp_received: true,
        };
        let emitted = outgoing.emit(&mut headers, Ecn::NotCapable, 0, offload);
        emitted.ok_or(Errno::INVAL)?;
        // The addresses end the IP header, and the ports begin UDP's.
        let length = match ends.source.is_ipv4() {
            true => 2 * 4 + 4,
            false => 2 * 16 + 4,
        };
        let ends_at = overhead - 4 - length;
        let mut ends_bytes = [0; ENDS];
        ends_bytes[..length].copy_from_slice(&headers[ends_at..ends_at + length]);
        Ok(Peer {
            drops: socket::drops(&socket),
            socket,
            ends,
            mtu,
            incoming,
            ends_at,
            ends_bytes,
            overhead,
            service: 0,
            cuts: true,
            refusals: 0,
        })
    }

    fn is_v4(&self) -> bool {
        self.ends.source.is_ipv4()
    }

    /// Where the datagram begins in a frame that goes from us to this peer, and ECN's bits of it; `None` if
    /// it goes elsewhere, or is not as long as it says.
    #[inline]
    pub fn takes(&self, frame: &[u8]) -> Option<(usize, u8)> {
        let length = self.overhead - 4 - self.ends_at;
        let ends = frame.get(self.ends_at..self.ends_at + length)?;
        if frame.len() < self.overhead || ends != &self.ends_bytes[..length] {
            return None;
        }
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let counted = usize::from(word(self.overhead - 4));
        let is_whole = counted == frame.len() - self.overhead + 8;
        let (is_ip, service) = match self.is_v4() {
            true => (word(12) == 0x0800 && frame[ETHERNET] == 0x45, frame[15]),
            false => (
                word(12) == 0x86dd && frame[ETHERNET] >> 4 == 6,
                frame[15] >> 4,
            ),
        };
        (is_ip && is_whole).then_some((self.overhead, service & 3))
    }

    /// What it sends from now on has these bits of ECN.
    #[inline]
    pub fn mark(&mut self, service: u8) {
        if self.service != service {
            self.service = service;
            socket::mark(&self.socket, self.ends.source.is_ipv4(), service);
        }
    }

    /// The kernel has not cut a large datagram. `false`: that is not why, or it is about this one only.
    pub fn refuses_to_cut(&mut self, why: Errno) -> bool {
        match why {
            // Without checksums by the NIC, or in a kernel that does not know it.
            Errno::IO | Errno::NOPROTOOPT | Errno::OPNOTSUPP => self.cuts = false,
            // Older kernels say it of what is too long for the interface, too.
            Errno::INVAL => {
                self.refusals += 1;
                self.cuts = self.refusals < MOST_REFUSALS;
            }
            Errno::MSGSIZE => {}
            _ => return false,
        }
        true
    }

    /// Datagrams that there was no room for since the last time.
    pub fn new_drops(&mut self) -> u64 {
        let before = core::mem::replace(&mut self.drops, socket::drops(&self.socket));
        self.drops.wrapping_sub(before).into()
    }
}
