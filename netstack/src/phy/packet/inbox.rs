//! A received frame that is several: the driver or the kernel has joined them, or the sender is on this machine and nobody
//! has cut them up. Each comes out as it would have arrived alone.
//!
//! Such a frame is longer than a slot of the ring. The kernel then keeps it in the socket's queue as well, and we fetch it
//! from there: 64 KiB for every slot would be memory that is hardly ever used.

use std::ops::Range;
use std::os::fd::AsFd;
use std::vec;
use std::vec::Vec;

use rustix::net::{RecvFlags, recv};

use super::wishes::{WISHES, Wishes};
use crate::wire::frame::{ETHERNET, Segments};

/// The longest that IP can say, and what stands before it.
const LONGEST: usize = WISHES + ETHERNET + (1 << 16);

#[derive(Debug)]
pub struct Inbox {
    /// Wishes, and the frame.
    memory: Vec<u8>,
    /// What of it has not been given out.
    rest: Option<Segments>,
}

impl Inbox {
    pub fn new() -> Inbox {
        Inbox {
            memory: vec![0; LONGEST],
            rest: None,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    pub fn clear(&mut self) {
        self.rest = None;
    }

    /// Fetches a frame from the socket's queue; its segments are frames of at most `largest` bytes. `false`: there is
    /// none, or it is of no use.
    pub fn fetch(&mut self, socket: impl AsFd, largest: usize) -> bool {
        let received = recv(socket, &mut self.memory[..], RecvFlags::DONTWAIT);
        let Ok((_, length)) = received else {
            return false;
        };
        self.begin(length, largest)
    }

    /// Takes one from its slot: wishes, and the frame.
    pub fn copy(&mut self, bytes: &[u8], largest: usize) -> bool {
        let Some(memory) = self.memory.get_mut(..bytes.len()) else {
            return false;
        };
        memory.copy_from_slice(bytes);
        self.begin(bytes.len(), largest)
    }

    fn begin(&mut self, length: usize, largest: usize) -> bool {
        self.rest = self.segments(length, largest);
        self.rest.is_some()
    }

    fn segments(&self, length: usize, largest: usize) -> Option<Segments> {
        let (wishes, frame) = self.memory.get(..length)?.split_first_chunk()?;
        let segment = Wishes::from_bytes(*wishes).segment()?;
        Segments::of(frame, segment).filter(|segments| segments.longest() <= largest)
    }

    /// The next frame: where it is in [`Inbox::bytes`].
    pub fn next(&mut self) -> Option<Range<usize>> {
        let next = self.rest.as_mut()?.cut(&mut self.memory[WISHES..]);
        if next.is_none() {
            self.rest = None;
        }
        next
    }

    pub fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.memory[WISHES..][place]
    }
}
