//! A port without a network: frames lie where they were written until somebody carries them over. What
//! it costs by itself is a few instructions.

use netstack::port::{Capabilities, Frame, Port, PortCounters, Trouble};
use netstack::time::Instant;
use netstack::wire::frame::Offload;

const MTU: usize = 1500;
const ROOM: usize = 2048;
const FRAMES: usize = 64;

/// A queue of frames.
struct Frames {
    bytes: Vec<[u8; ROOM]>,
    lengths: [usize; FRAMES],
    count: usize,
}

impl Frames {
    fn new() -> Frames {
        Frames {
            bytes: vec![[0; ROOM]; FRAMES],
            lengths: [0; FRAMES],
            count: 0,
        }
    }
}

pub struct Cord {
    address: [u8; 6],
    incoming: Frames,
    taken: usize,
    outgoing: Frames,
}

impl Cord {
    pub fn new(address: [u8; 6]) -> Cord {
        Cord {
            address,
            incoming: Frames::new(),
            taken: 0,
            outgoing: Frames::new(),
        }
    }

    /// All that has left arrives at the other end, which has taken what came before; how many frames.
    pub fn carry(&mut self, to: &mut Cord) -> usize {
        assert_eq!(to.taken, to.incoming.count, "not all was received");
        std::mem::swap(&mut self.outgoing, &mut to.incoming);
        self.outgoing.count = 0;
        to.taken = 0;
        to.incoming.count
    }
}

impl Port for Cord {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: MTU,
            address: self.address,
            offload: Offload::default(),
        }
    }

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<Frame<'_>> {
        if self.taken == self.incoming.count {
            return None;
        }
        let at = self.taken;
        self.taken += 1;
        Some(Frame {
            bytes: &self.incoming.bytes[at][..self.incoming.lengths[at]],
            checked: false,
        })
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        let room = self.outgoing.bytes.get_mut(self.outgoing.count)?;
        Some(&mut room[..14 + MTU])
    }

    #[inline]
    fn commit(&mut self, length: usize) {
        self.outgoing.lengths[self.outgoing.count] = length;
        self.outgoing.count += 1;
    }

    #[inline]
    fn flush(&mut self, _: Instant) -> Result<(), Trouble> {
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        PortCounters::default()
    }
}
