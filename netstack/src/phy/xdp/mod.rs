//! The port that takes frames off the driver before the kernel's protocols see them: AF_XDP. Needs
//! CAP_NET_RAW and, for the program, CAP_BPF and CAP_NET_ADMIN.
//!
//! [`Steering`] puts the program onto the interface, [`Xdp`] serves one queue. What it receives lies in
//! memory of ours; the driver or the kernel writes it there.

pub(super) mod assembler;
mod attach;
pub(super) mod bpf;
mod metadata;
mod program;
mod ring;
mod socket;
mod umem;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use rustix::io::{self, Errno};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::{Capabilities, Frame, Port, PortCounters, RETRY, Trouble};
use crate::time::Instant;
use crate::wire::frame::{ETHERNET, Offload, Outline, Segments};
use crate::wire::packet;
pub use attach::{Mode, Refusal, Steering};
use socket::{Binding, Socket};
use umem::{Umem, UmemShape};

/// Whether the kernel copies frames between the driver's memory and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    IfNeeded,
    Always,
    /// The driver must be able to do without.
    Never,
}

#[derive(Clone, Copy, Debug)]
pub struct XdpOptions {
    /// Only this queue's frames arrive. With a program in [`Mode::Generic`] on veth all come by the
    /// first one.
    pub queue: u32,
    /// Frames that can wait to be received, and to be sent.
    pub receive_slots: u32,
    pub send_slots: u32,
    pub copies: Copies,
}

impl Default for XdpOptions {
    fn default() -> XdpOptions {
        XdpOptions {
            queue: 0,
            receive_slots: 1024,
            send_slots: 256,
            copies: Copies::IfNeeded,
        }
    }
}

/// Received chunks are given back so many at a time.
const BATCH: u32 = 64;

#[derive(Debug)]
pub struct Xdp {
    capabilities: Capabilities,
    socket: Socket,
    /// After the socket: the kernel writes into it until that is closed.
    umem: Umem,
    shape: UmemShape,
    /// The chunk of the frame that was given out last.
    held: Option<u64>,
    /// Chunks that were given back and not published.
    returned: u32,
    /// Bytes of the longest frame that comes: on the kernel's buffers also frames that a packet port has joined.
    longest: usize,
    /// A frame that comes in several chunks.
    joined: Vec<u8>,
    /// It is several frames: what of them has not been given out.
    rest: Option<Segments>,
    /// More of it is to come.
    joining: bool,
    /// Slots that are ours, and chunks of each of the others that the kernel still has.
    free: Vec<u32>,
    outstanding: Vec<u32>,
    /// `[W6]` UDP checksums are left to the interface.
    completes: bool,
    /// The driver was busy: when to ask it again.
    retry: Option<Instant>,
    counters: PortCounters,
    _steering: Arc<Steering>,
}

impl Xdp {
    /// Serves a queue of the interface that the program is on, in the network namespace of the calling
    /// thread. Waits a little for a queue whose socket has just been closed.
    pub fn open(steering: &Arc<Steering>, options: XdpOptions) -> io::Result<Xdp> {
        let interface = steering.interface();
        let frame = ETHERNET + interface.mtu;
        let longest = match steering.mode() {
            Mode::Native => frame,
            Mode::Generic => frame.max(ETHERNET + usize::from(u16::MAX)),
        };
        let shape = UmemShape::new(frame, options.receive_slots, options.send_slots);
        let umem = Umem::new(shape)?;
        let binding = Binding {
            interface: interface.index,
            queue: options.queue,
            copies: match steering.mode() {
                Mode::Native => options.copies,
                // The driver does not know of the socket.
                Mode::Generic if options.copies == Copies::Never => return Err(Errno::OPNOTSUPP),
                Mode::Generic => Copies::Always,
            },
            scattered: shape.is_scattered(longest),
        };
        let socket = Socket::open(binding, &umem, shape)?;
        let completes = socket.has_metadata && metadata::completes(interface, socket.zero_copy);
        steering.set_socket(options.queue, socket.fd.as_fd())?;
        Ok(Xdp {
            capabilities: Capabilities {
                mtu: interface.mtu,
                address: interface.address,
                offload: Offload {
                    udp_sent: completes,
                    udp_received: false,
                },
            },
            socket,
            umem,
            shape,
            held: None,
            returned: 0,
            longest,
            joined: Vec::with_capacity(longest + 1),
            rest: None,
            joining: false,
            free: (0..shape.slots).rev().collect(),
            outstanding: vec![0; shape.slots as usize],
            completes,
            retry: None,
            counters: PortCounters::default(),
            _steering: Arc::clone(steering),
        })
    }

    /// Whether frames get here without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.zero_copy
    }

    /// A chunk for the kernel to receive into; there is room, for it came from there.
    fn give_back(&mut self, chunk: u64) {
        let _ = self.socket.fill.push(chunk);
        self.returned += 1;
        if self.returned == BATCH {
            self.publish();
        }
    }

    fn publish(&mut self) {
        self.socket.fill.publish();
        self.socket.received.give_back();
        self.returned = 0;
    }

    /// Nothing has come: the kernel gets all chunks back, and is woken if it waits for them.
    fn idle(&mut self) {
        if self.returned == 0 {
            return;
        }
        self.publish();
        if self.socket.zero_copy && self.socket.fill.needs_wakeup() {
            self.counters.calls += 1;
            let _ = recv(&self.socket.fd, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
    }

    /// Adds a chunk to the frame that comes in several; whether it is complete.
    fn join(&mut self, bytes: &[u8], more: bool) -> bool {
        if !self.joining {
            self.joined.clear();
        }
        // One that is longer than it may be is cut off, and seen to be.
        let room = self.longest + 1 - self.joined.len();
        self.joined
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.joining = more;
        !more
    }

    /// Several frames in one begin to be given out, if that is what has come. Nobody says how long each is but the
    /// packets themselves: XDP does not show what the kernel knows of a frame.
    fn begin_cutting(&mut self) -> bool {
        let is_open = |outline: &Outline| outline.is_open(&self.joined);
        let outline = Outline::of(&self.joined).filter(is_open);
        let payload = outline.and_then(|outline| self.joined.get(outline.overhead()..));
        let segments = payload
            .and_then(packet::length)
            .and_then(|size| Segments::of(&self.joined, size));
        let largest = self.capabilities.frame();
        self.rest = segments.filter(|segments| segments.longest() <= largest);
        self.rest.is_some()
    }

    /// The next of them: where it is.
    fn cut(&mut self) -> Option<Range<usize>> {
        let next = self.rest.as_mut()?.cut(&mut self.joined);
        if next.is_none() {
            self.rest = None;
        }
        next
    }

    /// The next chunk that has arrived.
    fn take(&mut self) -> Option<TakenChunk> {
        loop {
            let XdpDesc { addr, len, options } = self.socket.received.pop()?;
            let Some((chunk, bytes)) = self.umem.received(addr, len) else {
                // The kernel never says so; the chunk is lost.
                self.counters.truncated += 1;
                continue;
            };
            return Some(TakenChunk {
                chunk,
                bytes,
                length: len as usize,
                more: options.contains(XdpDescOptions::XDP_PKT_CONTD),
            });
        }
    }

    /// Takes back the slots of frames that have left.
    fn reclaim(&mut self) {
        if !self.socket.completed.has_some() {
            return;
        }
        while let Some(address) = self.socket.completed.pop() {
            let Some(slot) = self.umem.slot_of(address) else {
                continue;
            };
            let outstanding = &mut self.outstanding[slot as usize];
            if *outstanding == 1 {
                self.free.push(slot);
            }
            *outstanding = outstanding.saturating_sub(1);
        }
        self.socket.completed.give_back();
    }

    /// Writes the metadata of a frame whose checksum is to be completed; whether that is so.
    fn leave_checksum(&mut self, slot: u32, length: usize) -> bool {
        if !self.completes {
            return false;
        }
        let bytes = self.umem.slot(slot, length);
        // SAFETY: inside the slot, which is ours until it is published.
        let frame = unsafe { core::slice::from_raw_parts(bytes, length) };
        let Some(metadata) = metadata::of(frame) else {
            return false;
        };
        // SAFETY: inside the slot's chunk, and before its bytes: nobody else reads or writes it now.
        unsafe { self.umem.metadata(slot).write(metadata) };
        true
    }

    /// Tells the kernel to send.
    fn kick(&mut self) -> Result<(), Errno> {
        self.counters.calls += 1;
        send(&self.socket.fd, &[], SendFlags::DONTWAIT)?;
        Ok(())
    }
}

/// A chunk with a frame, or a part of one.
struct TakenChunk {
    chunk: u64,
    bytes: *const u8,
    length: usize,
    more: bool,
}

impl Port for Xdp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<Frame<'_>> {
        if let Some(chunk) = self.held.take() {
            self.give_back(chunk);
        }
        loop {
            if let Some(place) = self.cut() {
                self.counters.frames_received += 1;
                self.counters.bytes_received += place.len() as u64;
                return Some(Frame {
                    bytes: &self.joined[place],
                    checked: true,
                });
            }
            let Some(taken) = self.take() else {
                self.idle();
                return None;
            };
            // SAFETY: inside the chunk, which is ours until it is given back: below if it is joined,
            // else with the next call, which needs `self`, which the frame borrows.
            let bytes = unsafe { core::slice::from_raw_parts(taken.bytes, taken.length) };
            if taken.more || self.joining {
                let complete = self.join(bytes, taken.more);
                self.give_back(taken.chunk);
                if !complete {
                    continue;
                }
                if self.joined.len() > self.capabilities.frame() {
                    let is_useful = self.joined.len() <= self.longest && self.begin_cutting();
                    self.counters.truncated += u64::from(!is_useful);
                    continue;
                }
                self.counters.frames_received += 1;
                self.counters.bytes_received += self.joined.len() as u64;
                return Some(Frame {
                    bytes: &self.joined,
                    checked: false,
                });
            }
            self.held = Some(taken.chunk);
            self.counters.frames_received += 1;
            self.counters.bytes_received += taken.length as u64;
            return Some(Frame {
                bytes,
                checked: false,
            });
        }
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        // Also if there are others: the slot that was used last is the one that is in the nearest cache.
        self.reclaim();
        let slot = *self.free.last()?;
        let length = self.capabilities.frame();
        let bytes = self.umem.slot(slot, length);
        // SAFETY: inside the slot, which is ours until `commit`; that needs `self`, which the slice
        // borrows. All bytes are initialised: the mapping was clear.
        Some(unsafe { core::slice::from_raw_parts_mut(bytes, length) })
    }

    fn commit(&mut self, length: usize) {
        let chunk = self.shape.chunk;
        let parts = length.div_ceil(chunk) as u32;
        let is_possible = (ETHERNET..=self.capabilities.frame()).contains(&length);
        if !is_possible || self.free.is_empty() || !self.socket.sent.has_room(parts) {
            self.counters.refused += 1;
            return;
        }
        let Some(slot) = self.free.pop() else {
            return;
        };
        let start = self.umem.slot_address(slot);
        let has_metadata = self.leave_checksum(slot, length);
        for at in (0..length).step_by(chunk) {
            let rest = length - at;
            let options = if rest > chunk {
                XdpDescOptions::XDP_PKT_CONTD
            } else if has_metadata {
                XdpDescOptions::from_bits_retain(metadata::DESCRIPTOR_FLAG)
            } else {
                XdpDescOptions::empty()
            };
            let _ = self.socket.sent.push(XdpDesc {
                addr: start + at as u64,
                len: rest.min(chunk) as u32,
                options,
            });
        }
        self.outstanding[slot as usize] = parts;
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += length as u64;
    }

    fn flush(&mut self, now: Instant) -> Result<(), Trouble> {
        self.retry = None;
        let mut pending = self.socket.sent.pending();
        if pending == 0 {
            return Ok(());
        }
        self.socket.sent.publish();
        while pending > 0 && self.socket.sent.needs_wakeup() {
            match self.kick() {
                // The kernel sends some 32 at a time. Busy: the driver has lost one, and may take others.
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
                Err(errno) => return Err(errno.into()),
            }
            let left = self.socket.sent.pending();
            if left == pending {
                self.retry = Some(now + RETRY);
                break;
            }
            pending = left;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry
    }

    fn lie_down(&mut self) -> bool {
        self.rest.is_none()
    }

    fn trouble(&mut self) -> Option<Trouble> {
        match sockopt::socket_error(&self.socket.fd) {
            Ok(Ok(())) => None,
            Ok(Err(errno)) | Err(errno) => Some(errno.into()),
        }
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd.as_fd())
    }

    fn counters(&mut self) -> PortCounters {
        let mut counters = self.counters;
        if let Ok(kernel) = sockopt::xdp_statistics(&self.socket.fd) {
            // Without a chunk, and without an entry for it.
            counters.overruns = kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0);
            counters.refused += kernel.tx_invalid_descs;
        }
        counters
    }
}
