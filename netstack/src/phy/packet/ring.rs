//! The ring of slots for received frames, which is shared with the kernel (TPACKET_V2). The first word of a slot says
//! whose it is: zero gives it to the kernel.
//!
//! Version 2 and not 3: there a frame is seen when its block is full or a timer of a millisecond fires.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr as Header;

use super::wishes::{WISHES, Wishes};
use crate::phy::sys::Map;

/// Slots of one size, one behind the other. The kernel cuts a ring into blocks; a whole number of slots
/// fills each, so that there is no gap.
#[derive(Clone, Copy, Debug)]
pub struct SlotLayout {
    pub slot: usize,
    pub count: usize,
}

/// Contiguous memory that the kernel allocates at a time, if slots are not larger.
const BLOCK: usize = 1 << 15;

impl SlotLayout {
    /// For frames of this length, and what the kernel writes before them.
    pub fn new(frame: usize, count: usize) -> SlotLayout {
        // linux/if_packet.h: the kernel aligns the IP header, not the frame, by 16.
        let before = libc::TPACKET2_HDRLEN + 16 + libc::TPACKET_ALIGNMENT + WISHES;
        let slot = (before + frame).next_power_of_two();
        let count = count.max(BLOCK.div_ceil(slot)).next_power_of_two();
        SlotLayout { slot, count }
    }

    pub fn bytes(self) -> usize {
        self.slot * self.count
    }

    pub fn request(self) -> libc::tpacket_req {
        let block = BLOCK.max(self.slot);
        libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (self.bytes() / block) as u32,
            tp_frame_size: self.slot as u32,
            tp_frame_nr: self.count as u32,
        }
    }
}

/// A ring that fills its mapping, with our end of it.
#[derive(Debug)]
pub struct Ring {
    layout: SlotLayout,
    head: usize,
}

impl Ring {
    pub fn new(layout: SlotLayout) -> Ring {
        Ring { layout, head: 0 }
    }

    pub fn slot_size(&self) -> usize {
        self.layout.slot
    }

    /// So many bytes of the slot at our end.
    pub fn bytes(&self, map: &Map, at: usize, len: usize) -> *mut u8 {
        assert!(len <= self.layout.slot && at <= self.layout.slot - len);
        map.at(self.head * self.layout.slot + at, len)
    }

    fn header(&self, map: &Map) -> *mut Header {
        map.at(self.head * self.layout.slot, size_of::<Header>())
            .cast()
    }

    /// What the first word of the slot at our end says.
    #[inline]
    pub fn status(&self, map: &Map) -> u32 {
        self.word(map).load(Ordering::Acquire)
    }

    /// The slot at our end goes back to the kernel.
    pub fn give_back(&mut self, map: &Map) {
        self.word(map)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = (self.head + 1) & (self.layout.count - 1);
    }

    fn word<'a>(&self, map: &'a Map) -> &'a AtomicU32 {
        map.get(self.head * self.layout.slot)
    }

    /// What the kernel says about the frame in a slot that is ours.
    pub fn description(&self, map: &Map) -> Description {
        let header = self.header(map);
        // SAFETY: inside the mapping and aligned; the slot is ours, so nobody writes.
        unsafe {
            Description {
                length: (&raw const (*header).tp_len).read() as usize,
                present: (&raw const (*header).tp_snaplen).read() as usize,
                at: usize::from((&raw const (*header).tp_mac).read()),
                vlan: (&raw const (*header).tp_vlan_tci).read() & 0xfff,
            }
        }
    }

    /// What stands before that frame, which begins at `at`.
    pub fn wishes(&self, map: &Map, at: usize) -> Wishes {
        let Some(start) = at.checked_sub(WISHES) else {
            return Wishes::default();
        };
        let bytes = self.bytes(map, start, WISHES).cast::<[u8; WISHES]>();
        // SAFETY: inside the slot, which is ours, so nobody writes.
        Wishes::from_bytes(unsafe { bytes.read() })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Description {
    pub length: usize,
    pub present: usize,
    pub at: usize,
    pub vlan: u16,
}
