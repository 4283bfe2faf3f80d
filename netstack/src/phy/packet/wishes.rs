//! What stands before every frame (`struct virtio_net_hdr` of linux/virtio_net.h): what hardware is to do with it when it
//! is sent, and what it has done when it was received.

use crate::wire::frame::{Joined, LONGEST};

/// In the byte order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wishes {
    flags: u8,
    segmentation: u8,
    /// Bytes of all headers.
    head: u16,
    /// Bytes of payload in each segment.
    segment: u16,
    /// Where the checksum begins, and where from there on it is.
    sum_from: u16,
    sum_at: u16,
}

/// Its bytes.
pub const WISHES: usize = size_of::<Wishes>();

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum is not there yet, or was never needed.
const NEEDS_CHECKSUM: u8 = 1;
/// VIRTIO_NET_HDR_F_DATA_VALID: it was right.
const CHECKED: u8 = 2;
/// VIRTIO_NET_HDR_GSO_UDP_L4: segments are UDP datagrams.
const DATAGRAMS: u8 = 5;
/// Where the checksum is in the header of UDP.
const UDP_CHECKSUM: u16 = 6;

impl Wishes {
    /// For a frame, or several; nothing if its checksum is there.
    pub fn of(joined: Option<&Joined>) -> Wishes {
        let Some(joined) = joined else {
            return Wishes::default();
        };
        let outline = joined.outline();
        let segment = joined.segment();
        Wishes {
            flags: NEEDS_CHECKSUM,
            segmentation: if segment.is_some() { DATAGRAMS } else { 0 },
            // The kernel puts the headers of a short frame with the rest of it by itself.
            head: segment.map_or(0, |_| outline.overhead() as u16),
            segment: segment.unwrap_or(0) as u16,
            sum_from: outline.udp() as u16,
            sum_at: UDP_CHECKSUM,
        }
    }

    pub fn from_bytes(bytes: [u8; WISHES]) -> Wishes {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Wishes {
            flags: bytes[0],
            segmentation: bytes[1],
            head: word(2),
            segment: word(4),
            sum_from: word(6),
            sum_at: word(8),
        }
    }

    /// Whether a received frame is several.
    #[inline]
    pub fn is_joined(&self) -> bool {
        self.segmentation != 0
    }

    /// Bytes of payload in each of the frames that a received one is. `None`: it cannot be cut into what was sent:
    /// not UDP, or nobody answers for the checksums that were in the frames.
    pub fn segment(&self) -> Option<usize> {
        let is_ours =
            self.segmentation == DATAGRAMS && self.flags & (NEEDS_CHECKSUM | CHECKED) != 0;
        is_ours.then_some(self.segment.into())
    }
}

// The headers of a frame are counted in a byte's range.
const _: () = assert!(LONGEST < u16::MAX as usize && WISHES == 10);
