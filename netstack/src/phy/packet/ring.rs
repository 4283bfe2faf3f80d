//! One ring of slots that are shared with the kernel (TPACKET_V2). The first word of a slot says whose
//! it is: zero gives it to the kernel when receiving, and to us when sending.
//!
//! Version 2 and not 3: there a frame is seen when its block is full or a timer of a millisecond fires.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr as Header;

use crate::phy::sys::Map;

/// What stands before every frame (`struct virtio_net_hdr` of linux/virtio_net.h): wishes to the hardware, of
/// which we have none.
pub const WISHES: usize = 10;
/// Where in it the length of the frame's head is, which the kernel copies; it lends the pages of the rest.
const HEAD_LENGTH_AT: usize = 2;
/// Frames that are copied whole: a page that was lent has to be copied anyway, with an allocation of its
/// own, when the receiver is on this machine, and to map it for a card costs no less.
const COPIED: usize = 2048;

/// Where what we send begins in its slot (net/packet/af_packet.c, `tpacket_parse_header`).
const WISHES_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
/// Where a frame to send begins.
pub const FRAME_AT: usize = WISHES_AT + WISHES;

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

/// A ring at its place in the mapping, with our end of it.
#[derive(Debug)]
pub struct Ring {
    layout: SlotLayout,
    offset: usize,
    head: usize,
}

impl Ring {
    pub fn new(layout: SlotLayout, offset: usize) -> Ring {
        Ring {
            layout,
            offset,
            head: 0,
        }
    }

    pub fn slot_size(&self) -> usize {
        self.layout.slot
    }

    /// Our end moves on.
    pub fn advance(&mut self) {
        self.head = (self.head + 1) & (self.layout.count - 1);
    }

    /// So many bytes of the slot at our end.
    pub fn bytes(&self, map: &Map, at: usize, len: usize) -> *mut u8 {
        assert!(len <= self.layout.slot && at <= self.layout.slot - len);
        map.at(self.offset + self.head * self.layout.slot + at, len)
    }

    fn header(&self, map: &Map) -> *mut Header {
        self.header_at(map, self.head)
    }

    fn header_at(&self, map: &Map, slot: usize) -> *mut Header {
        map.at(self.offset + slot * self.layout.slot, size_of::<Header>())
            .cast()
    }

    /// What the first word of the slot at our end says.
    pub fn status(&self, map: &Map) -> u32 {
        self.status_at(map, self.head)
    }

    /// What that of the slot before says.
    pub fn status_before(&self, map: &Map) -> u32 {
        self.status_at(map, self.head.wrapping_sub(1) & (self.layout.count - 1))
    }

    fn status_at(&self, map: &Map, slot: usize) -> u32 {
        self.word(map, slot).load(Ordering::Acquire)
    }

    /// The slot at our end goes over to the kernel.
    pub fn give(&self, map: &Map, status: u32) {
        self.word(map, self.head).store(status, Ordering::Release);
    }

    fn word<'a>(&self, map: &'a Map, slot: usize) -> &'a AtomicU32 {
        map.get(self.offset + slot * self.layout.slot)
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

    /// How long the frame is that we have written into the slot at our end.
    pub fn describe_own(&self, map: &Map, length: usize) {
        self.describe(map, self.head, length);
    }

    /// How long the frame in a slot is. The kernel looks at it in our own system calls only.
    pub fn describe(&self, map: &Map, slot: usize, length: usize) {
        let header = self.header_at(map, slot);
        let head = if length <= COPIED { length } else { 0 } as u16;
        let at = self.offset + slot * self.layout.slot + WISHES_AT + HEAD_LENGTH_AT;
        let place = map.at(at, size_of_val(&head)).cast::<[u8; 2]>();
        // SAFETY: inside the mapping and aligned; the slot is ours, so nobody reads.
        unsafe {
            (&raw mut (*header).tp_len).write((WISHES + length) as u32);
            place.write(head.to_ne_bytes());
        };
    }

    /// What `describe` has said.
    pub fn length(&self, map: &Map, slot: usize) -> usize {
        let header = self.header_at(map, slot);
        // SAFETY: inside the mapping and aligned; the kernel does not write it in a ring for sending.
        let length = unsafe { (&raw const (*header).tp_len).read() };
        (length as usize).saturating_sub(WISHES)
    }

    /// The first slot that waits to be sent.
    pub fn first_waiting(&self, map: &Map) -> Option<usize> {
        let before = |back: usize| self.head.wrapping_sub(back) & (self.layout.count - 1);
        let slots = (1..=self.layout.count).map(before);
        let waits = |&slot: &usize| self.status_at(map, slot) == libc::TP_STATUS_SEND_REQUEST;
        slots.take_while(waits).last()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Description {
    pub length: usize,
    pub present: usize,
    pub at: usize,
    pub vlan: u16,
}
