//! An aperture of a port: a page that says who it is, then a ring for each port that may send to it.
//!
//! ```text
//!   magic address lanes size asleep │ tail lost · head · bytes … │ tail lost · head · bytes … │ …
//! ```
//!
//! `tail` and `lost` are the sender's words, all others the owner's; each has one writer.

/// Changes with the layout. It is written last: an aperture without it is not ready.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ulsockP1");

/// Words of the first page.
pub const MAGIC_AT: usize = 0;
pub const ADDRESS_AT: usize = 8;
pub const LANES_AT: usize = 16;
pub const SIZE_AT: usize = 24;
pub const ASLEEP_AT: usize = 64;
const PAGE: usize = 4096;

/// Words before the bytes of a ring.
pub const TAIL: usize = 0;
pub const LOST: usize = 8;
pub const HEAD: usize = 64;
const LANE_HEAD: usize = 128;

/// Bytes of a ring.
const SMALLEST_RING: usize = 1 << 15;
const LARGEST_RING: usize = 1 << 19;

/// How many rings there are, and how large each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApertureLayout {
    pub lanes: usize,
    /// A power of two.
    pub size: usize,
}

impl ApertureLayout {
    /// The largest rings that leave half of what is there to other processes.
    pub fn within(partition: u64, lanes: usize) -> Option<ApertureLayout> {
        let sizes = core::iter::successors(Some(LARGEST_RING), |size| Some(size / 2));
        let layouts = sizes
            .take_while(|size| *size >= SMALLEST_RING)
            .map(|size| ApertureLayout { lanes, size });
        layouts
            .filter(|layout| layout.total() as u64 <= partition / 2)
            .find(|layout| layout.is_sound())
    }

    /// As another port says; what it says may be anything.
    pub fn claimed(lanes: u64, size: u64, length: u64) -> Option<ApertureLayout> {
        let layout = ApertureLayout {
            lanes: usize::try_from(lanes).ok()?,
            size: usize::try_from(size).ok()?,
        };
        (layout.is_sound() && layout.total() as u64 <= length).then_some(layout)
    }

    fn is_sound(&self) -> bool {
        let sizes = SMALLEST_RING..=LARGEST_RING;
        let lanes = 1..=super::uapi::WIRES_MAX;
        self.size.is_power_of_two() && sizes.contains(&self.size) && lanes.contains(&self.lanes)
    }

    /// Bytes of the whole.
    pub fn total(&self) -> usize {
        PAGE + self.lanes * (LANE_HEAD + self.size)
    }

    /// Where a lane's words are.
    pub fn lane(&self, number: usize) -> usize {
        assert!(number < self.lanes);
        PAGE + number * (LANE_HEAD + self.size)
    }

    /// Where its bytes are.
    pub fn bytes(&self, number: usize) -> usize {
        self.lane(number) + LANE_HEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_as_large_as_may_be() {
        let layout = ApertureLayout::within(4 << 20, 16).expect("room");
        assert_eq!(layout.size, 1 << 16);
        assert_eq!(
            ApertureLayout::within(256 << 20, 16).expect("room").size,
            LARGEST_RING
        );
        assert_eq!(ApertureLayout::within(1 << 18, 16), None);
        assert_eq!(ApertureLayout::within(1 << 30, 65), None);
    }

    #[test]
    fn claims_are_checked() {
        let layout = ApertureLayout::within(4 << 20, 16).expect("room");
        let total = layout.total() as u64;
        let claim = |lanes, size, length| ApertureLayout::claimed(lanes, size, length);
        assert_eq!(claim(16, 1 << 16, total), Some(layout));
        assert_eq!(claim(16, 1 << 16, total - 1), None);
        assert_eq!(claim(16, (1 << 16) + 8, 1 << 40), None);
        assert_eq!(claim(0, 1 << 16, 1 << 40), None);
        assert_eq!(claim(u64::MAX, 1 << 16, u64::MAX), None);
        assert_eq!(claim(16, 1 << 63, u64::MAX), None);
    }
}
