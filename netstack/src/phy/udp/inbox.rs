//! What has been received and is lent out datagram by datagram, each as a frame.
//!
//! The kernel writes datagrams of one length one behind the other. The headers that make a frame of one are
//! written before it, over the end of the one before, which has been used by then.

use core::ops::Range;
use std::boxed::Box;
use std::vec;

use rustix::io;

use super::NO_PIECE;
use super::message::{BATCH, LONGEST, Received, receive, receive_one};
use crate::phy::sys::Fd;
use crate::wire::frame::{Ecn, Offload, Route};

/// Before each piece: room for the longest headers, Ethernet, IPv6 and UDP.
const HEADROOM: usize = 64;
const PIECE: usize = HEADROOM + LONGEST;

/// The kernel has looked at the checksum, and it is not there any more: IPv4 has none in its place, IPv6 the part of it
/// that needs no look at the bytes.
fn offload(route: &Route) -> Offload {
    Offload {
        udp_sent: !route.is_v4(),
        udp_received: true,
    }
}

#[derive(Debug)]
pub struct Inbox {
    memory: Box<[u8]>,
    pieces: [Received; BATCH],
    /// How many of them there are, and which one is lent out.
    count: usize,
    piece: usize,
    /// Where the next datagram begins in it.
    at: usize,
    /// The socket that all of it is from.
    pub socket: usize,
    /// Nothing had come behind it when it was taken in, as far as is known.
    is_drained: bool,
    /// Looks in a row that have found something: there may be more.
    found: u32,
}

/// So many of them, and the next look asks for several pieces. In a ping-pong one is often alone.
const BUSY: u32 = 2;

impl Inbox {
    /// Pages of it that are never used are never there.
    pub fn new() -> Inbox {
        Inbox {
            memory: vec![0; PIECE * BATCH].into_boxed_slice(),
            pieces: [Received::default(); BATCH],
            count: 0,
            piece: 0,
            at: 0,
            socket: 0,
            is_drained: false,
            found: 0,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.piece == self.count
    }

    /// Whatever was there is gone.
    pub fn clear(&mut self) {
        (self.count, self.piece, self.at) = (0, 0, 0);
    }

    /// Takes in what has come by this socket: one piece after a vain look, so that who waits for an answer gets it
    /// sooner; several where much comes.
    pub fn fill(&mut self, number: usize, socket: &Fd) -> io::Result<bool> {
        self.clear();
        self.is_drained = false;
        self.socket = number;
        let found = core::mem::take(&mut self.found);
        let several = found >= BUSY;
        self.count = match several {
            true => self.fill_all(socket)?,
            false => self.fill_one(socket)?,
        };
        self.is_drained = !several || self.count < BATCH;
        if self.count > 0 {
            self.found = found.saturating_add(1);
        }
        Ok(self.count > 0)
    }

    #[inline]
    fn fill_one(&mut self, socket: &Fd) -> io::Result<usize> {
        let mut piece = room(&mut self.memory[..PIECE]);
        // SAFETY: the piece names `LONGEST` bytes of memory that is ours.
        self.pieces[0] = unsafe { receive_one(socket, &mut piece)? };
        Ok(1)
    }

    #[inline(never)]
    fn fill_all(&mut self, socket: &Fd) -> io::Result<usize> {
        let mut pieces = [NO_PIECE; BATCH];
        for (piece, memory) in pieces.iter_mut().zip(self.memory.chunks_exact_mut(PIECE)) {
            *piece = room(memory);
        }
        // SAFETY: each piece names `LONGEST` bytes of memory that is ours.
        unsafe { receive(socket, &mut pieces, &mut self.pieces) }
    }

    /// Whether all has just been lent out that there was. It is told once.
    #[inline]
    pub fn is_through(&mut self) -> bool {
        core::mem::take(&mut self.is_drained)
    }

    /// The next datagram, as a frame that came by this route: where it is. `None` if it is not whole.
    #[inline]
    pub fn next(&mut self, route: &Route) -> Option<Range<usize>> {
        let received = self.pieces[self.piece];
        let left = received.length - self.at.min(received.length);
        let length = match received.segment {
            0 => left,
            segment => left.min(segment),
        };
        let start = self.piece * PIECE + HEADROOM + self.at;
        self.at += length;
        if self.at >= received.length {
            (self.piece, self.at) = (self.piece + 1, 0);
        }
        if received.is_truncated {
            return None;
        }
        let ecn = Ecn::from_bits(received.service);
        // The first one has the headroom before it, and all others what has been used.
        let frame = start - route.overhead()..start + length;
        route.emit(
            self.memory.get_mut(frame.clone())?,
            ecn,
            length,
            offload(route),
        )?;
        Some(frame)
    }

    pub fn bytes(&self, frame: Range<usize>) -> &[u8] {
        &self.memory[frame]
    }
}

/// Where the kernel writes in a piece.
fn room(piece: &mut [u8]) -> libc::iovec {
    let room = &mut piece[HEADROOM..];
    libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::*;
    use crate::wire::Addresses;
    use crate::wire::frame::parse;

    fn inbox(pieces: &[Received]) -> Inbox {
        let mut inbox = Inbox::new();
        inbox.count = pieces.len();
        inbox.pieces[..pieces.len()].copy_from_slice(pieces);
        for (number, piece) in pieces.iter().enumerate() {
            let bytes = (0..piece.length).map(|at| (at / piece.segment.max(1)) as u8);
            let start = number * PIECE + HEADROOM;
            for (to, byte) in inbox.memory[start..].iter_mut().zip(bytes) {
                *to = byte;
            }
        }
        inbox
    }

    fn ends(from: &str, to: &str) -> Addresses {
        let end = |text: &str| -> SocketAddr { text.parse().unwrap() };
        Addresses {
            source: end(from),
            destination: end(to),
        }
    }

    /// Headers are written over what has been read, and never over what has not.
    #[test]
    fn every_datagram_is_a_frame() {
        let ways = [
            ends("10.9.0.1:4691", "10.9.0.2:4692"),
            ends("[fd09::1]:4691", "[fd09::2]:4692"),
        ];
        for way in ways {
            let route = Route::new([0; 6], [0; 6], &way).unwrap();
            for (length, segment) in [
                (1, 1),
                (50, 1),
                (4000, 1448),
                (1448, 1448),
                (0, 0),
                (65_000, 9),
            ] {
                let piece = Received {
                    length,
                    segment,
                    service: 3,
                    is_truncated: false,
                };
                let mut inbox = inbox(&[piece; 3]);
                for number in 0..3 {
                    let parts = length.div_ceil(segment.max(1)).max(1);
                    for part in 0..parts {
                        let frame = inbox.next(&route).unwrap();
                        let arrival = parse(inbox.bytes(frame), offload(&route)).unwrap();
                        assert_eq!((arrival.addresses, arrival.ecn), (way, Ecn::Congested));
                        let rest = length - part * segment;
                        let expected = vec![part as u8; rest.min(segment)];
                        assert!(arrival.payload == expected, "{part} of {number}");
                    }
                }
                assert!(inbox.is_empty());
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_not_lent() {
        let way = ends("10.9.0.1:4691", "10.9.0.2:4692");
        let route = Route::new([0; 6], [0; 6], &way).unwrap();
        let cut = Received {
            length: LONGEST,
            is_truncated: true,
            ..Received::default()
        };
        let mut inbox = inbox(&[cut, Received::default()]);
        assert!(inbox.next(&route).is_none());
        assert!(inbox.next(&route).is_some());
        assert!(inbox.is_empty());
    }
}
