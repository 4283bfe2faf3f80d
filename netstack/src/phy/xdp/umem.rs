//! The memory that a socket's frames lie in: chunks to receive into, then slots to send from. A frame
//! that is larger than a chunk arrives in several, and leaves from several that follow each other.
//! Before a frame that is sent from one chunk there is room for its metadata.

use rustix::io;
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

use super::metadata::{METADATA, METADATA_FLAG};
use crate::phy::sys::Map;

/// What the kernel keeps free before a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// The kernel takes these sizes of chunks.
const SMALL: usize = 2048;
const LARGE: usize = 4096;
/// What lies before a frame that is sent, in its chunk: its metadata, and a whole line of the cache, so that the frame begins
/// with one.
const LEAD: usize = 64;
const _: () = assert!(METADATA <= LEAD);

/// How the memory is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmemShape {
    pub chunk: usize,
    /// Chunks to receive into.
    pub receiving: u32,
    /// Slots to send from, and chunks of each.
    pub slots: u32,
    pub parts: u32,
    /// Bytes before a frame that is sent. None where it takes several chunks: the kernel would want them in each
    /// (`xp_aligned_validate_desc` in net/xdp/xsk_queue.h), and the frame lies in one piece.
    pub lead: usize,
}

impl UmemShape {
    /// For frames of this length, so many in each direction.
    pub fn new(frame: usize, receiving: u32, slots: u32) -> UmemShape {
        let chunk = if frame <= SMALL - HEADROOM {
            SMALL
        } else {
            LARGE
        };
        let pieces = frame.div_ceil(chunk - HEADROOM) as u32;
        UmemShape {
            chunk,
            receiving: (receiving * pieces).next_power_of_two(),
            slots,
            parts: frame.div_ceil(chunk) as u32,
            lead: if LEAD + frame <= chunk { LEAD } else { 0 },
        }
    }

    /// Frames come in several chunks.
    pub fn is_scattered(self, frame: usize) -> bool {
        frame > self.chunk - HEADROOM
    }

    /// Entries of the rings that the kernel reads and writes when sending: all chunks fit at once.
    pub fn sending(self) -> u32 {
        (self.slots * self.parts).next_power_of_two()
    }

    fn sending_at(self) -> usize {
        self.receiving as usize * self.chunk
    }

    fn slot(self) -> usize {
        self.parts as usize * self.chunk
    }

    fn bytes(self) -> usize {
        self.sending_at() + self.slots as usize * self.slot()
    }
}

#[derive(Debug)]
pub struct Umem {
    shape: UmemShape,
    map: Map,
}

impl Umem {
    pub fn new(shape: UmemShape) -> io::Result<Umem> {
        let map = Map::anonymous(shape.bytes())?;
        Ok(Umem { shape, map })
    }

    /// With metadata before frames that are sent, or without.
    pub fn registration(&self, has_metadata: bool) -> XdpUmemReg {
        let (flags, length) = if has_metadata {
            (METADATA_FLAG, METADATA)
        } else {
            (0, 0)
        };
        XdpUmemReg {
            addr: self.map.at(0, 0) as u64,
            len: self.shape.bytes() as u64,
            chunk_size: self.shape.chunk as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::from_bits_retain(flags),
            tx_metadata_len: length as u32,
        }
    }

    /// The addresses of all chunks to receive into.
    pub fn chunks(&self) -> impl Iterator<Item = u64> + use<> {
        let chunk = self.shape.chunk as u64;
        (0..u64::from(self.shape.receiving)).map(move |number| number * chunk)
    }

    /// The chunk around an address at which the kernel has put a frame, and where the frame is; `None`
    /// if it does not lie in one.
    pub fn received(&self, address: u64, length: u32) -> Option<(u64, *const u8)> {
        let (address, length) = (usize::try_from(address).ok()?, length as usize);
        let within = address & (self.shape.chunk - 1);
        let fits = address < self.shape.sending_at() && within + length <= self.shape.chunk;
        fits.then(|| {
            (
                (address - within) as u64,
                self.map.at(address, length).cast_const(),
            )
        })
    }

    /// The bytes of a slot.
    pub fn slot(&self, slot: u32, length: usize) -> *mut u8 {
        assert!(slot < self.shape.slots && self.shape.lead + length <= self.shape.slot());
        self.map.at(self.slot_address(slot) as usize, length)
    }

    /// The metadata of a slot, just before its bytes.
    pub fn metadata(&self, slot: u32) -> *mut [u8; METADATA] {
        assert!(slot < self.shape.slots && self.shape.lead >= METADATA);
        let address = self.slot_address(slot) as usize - METADATA;
        self.map.at(address, METADATA).cast()
    }

    pub fn slot_address(&self, slot: u32) -> u64 {
        let start = self.shape.sending_at() + slot as usize * self.shape.slot();
        (start + self.shape.lead) as u64
    }

    /// The slot that an address lies in.
    pub fn slot_of(&self, address: u64) -> Option<u32> {
        let offset = usize::try_from(address)
            .ok()?
            .checked_sub(self.shape.sending_at())?;
        let slot = (offset / self.shape.slot()) as u32;
        (slot < self.shape.slots).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let usual = UmemShape::new(1514, 1024, 256);
        assert_eq!((usual.chunk, usual.receiving, usual.parts), (2048, 1024, 1));
        assert!(!usual.is_scattered(1514));
        let jumbo = UmemShape::new(9014, 1024, 256);
        assert_eq!((jumbo.chunk, jumbo.receiving, jumbo.parts), (4096, 4096, 3));
        assert_eq!(jumbo.sending(), 1024);
        assert!(jumbo.is_scattered(9014));
        // With metadata a frame does not reach beyond its chunk.
        let lead = |frame| UmemShape::new(frame, 1024, 256).lead;
        let page = 4096;
        assert_eq!([usual.lead, lead(page - LEAD)], [LEAD; 2]);
        assert_eq!([jumbo.lead, lead(page - LEAD + 1)], [0; 2]);
    }

    #[test]
    fn places() {
        let umem = Umem::new(UmemShape::new(9014, 4, 3)).expect("memory");
        assert_eq!(umem.chunks().last(), Some(15 * 4096));
        assert_eq!(umem.slot_address(0), 16 * 4096);
        for slot in 0..3 {
            let address = umem.slot_address(slot);
            assert_eq!(umem.slot_of(address), Some(slot));
            assert_eq!(umem.slot_of(address + 2 * 4096), Some(slot));
        }
        assert_eq!(umem.slot_of(umem.slot_address(3)), None);
        assert_eq!(umem.slot_of(0), None);
        assert_eq!(
            umem.received(4096 + 256, 3840).map(|found| found.0),
            Some(4096)
        );
        assert_eq!(umem.received(4096 + 256, 3841), None);
        assert_eq!(umem.received(16 * 4096, 1), None);
        assert_eq!(umem.received(u64::MAX, 1), None);
        let umem = Umem::new(UmemShape::new(1514, 4, 3)).expect("memory");
        for slot in 0..3 {
            let address = umem.slot_address(slot);
            assert_eq!(address, (4 + u64::from(slot)) * 2048 + LEAD as u64);
            assert_eq!(umem.slot_of(address), Some(slot));
            let metadata = umem.metadata(slot).cast::<u8>();
            let distance = umem.slot(slot, 1514) as usize - metadata as usize;
            assert_eq!(distance, METADATA);
        }
    }
}
