//! The acknowledgement block: which numbers of a path have been received.

use core::ops::{Range, RangeInclusive};

use super::PATHS;

/// `[P3]` Ranges that a block can hold.
pub const RANGES: usize = 32;
const FIXED: usize = 8;
const RANGE: usize = 4;
const MARKS: usize = 8;
/// Bytes of the longest block.
pub const LONGEST: usize = FIXED + RANGES * RANGE + MARKS;
/// The unit of the delay field, in nanoseconds.
const DELAY_UNIT: u64 = 250;
/// Packets that one range can name.
const LONGEST_RANGE: u64 = 1 << 16;

/// How many packets have come with ECN's code points, since the path began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// ECT(0): it can be marked.
    pub capable: u32,
    /// CE: a queue on the way was long.
    pub congested: u32,
}

impl Marks {
    #[inline]
    fn bytes(self) -> [u8; MARKS] {
        let both = u64::from(self.capable) << 32 | u64::from(self.congested);
        both.to_be_bytes()
    }
}

/// A block as it was received. The ranges come from a stranger.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    fixed: &'a [u8; FIXED],
    ranges: &'a [[u8; RANGE]],
    marks: Option<&'a [u8; MARKS]>,
}

impl<'a> Ack<'a> {
    /// `[W7]` The block at the beginning of these bytes, and what follows it; `None` if it is cut, or has no
    /// range or too many.
    #[inline]
    pub(super) fn split(bytes: &'a [u8], has_marks: bool) -> Option<(Ack<'a>, &'a [u8])> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>()?;
        let count = usize::from(fixed[1]);
        if !(1..=RANGES).contains(&count) {
            return None;
        }
        let (ranges, mut rest) = rest.split_at_checked(count * RANGE)?;
        let ranges = ranges.as_chunks().0;
        let mut marks = None;
        if has_marks {
            let (counts, after) = rest.split_first_chunk::<MARKS>()?;
            marks = Some(counts);
            rest = after;
        }
        let ack = Ack {
            fixed,
            ranges,
            marks,
        };
        Some((ack, rest))
    }

    /// `[W1]` It names a path that there can be, and nothing comes after the last range.
    #[inline]
    pub(super) fn is_sound(&self) -> bool {
        let ends = matches!(self.ranges.last(), Some([_, _, 0, 0]));
        usize::from(self.path()) < PATHS && ends
    }

    #[inline]
    pub fn path(&self) -> u8 {
        self.fixed[0]
    }

    #[inline]
    pub fn delay_nanos(&self) -> u64 {
        let [_, _, d0, d1, ..] = *self.fixed;
        u64::from(u16::from_be_bytes([d0, d1])) * DELAY_UNIT
    }

    /// The largest number, low 32 bits.
    #[inline]
    pub fn largest(&self) -> u32 {
        let [_, _, _, _, l0, l1, l2, l3] = *self.fixed;
        u32::from_be_bytes([l0, l1, l2, l3])
    }

    #[inline]
    pub fn marks(&self) -> Option<Marks> {
        let [c0, c1, c2, c3, m0, m1, m2, m3] = *self.marks?;
        Some(Marks {
            capable: u32::from_be_bytes([c0, c1, c2, c3]),
            congested: u32::from_be_bytes([m0, m1, m2, m3]),
        })
    }

    /// The range of the largest, once its full number is known; `None` if it would reach below zero.
    #[inline]
    pub fn newest(&self, largest: u64) -> Option<Range<u64>> {
        let [l0, l1, ..] = *self.ranges.first()?;
        let low = largest.checked_sub(u16::from_be_bytes([l0, l1]).into())?;
        Some(low..largest.checked_add(1)?)
    }

    /// There are others.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.ranges.len() > 1
    }

    /// The ranges from the largest down, once its full number is known; `None` for one that would
    /// reach below zero, and for all behind it.
    #[inline]
    pub fn ranges(
        &self,
        largest: u64,
    ) -> impl Iterator<Item = Option<RangeInclusive<u64>>> + use<'a> {
        let mut next = Some(largest);
        self.ranges.iter().map(move |[l0, l1, g0, g1]| {
            let length = u64::from(u16::from_be_bytes([*l0, *l1]));
            let gap = u64::from(u16::from_be_bytes([*g0, *g1])) + 1;
            let high = next.take()?;
            let low = high.checked_sub(length)?;
            next = low.checked_sub(gap + 1);
            Some(low..=high)
        })
    }
}

/// That a block was written, and how long it is.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub length: usize,
    pub(super) marks: bool,
}

/// What a block says.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub path: u8,
    pub delay_nanos: u64,
    pub marks: Option<Marks>,
}

impl Report {
    /// The part of a block before its ranges.
    #[inline]
    fn fixed(&self, count: usize, largest: u64) -> [u8; FIXED] {
        let delay = u16::try_from(self.delay_nanos / DELAY_UNIT).unwrap_or(u16::MAX);
        let [d0, d1] = delay.to_be_bytes();
        let [l0, l1, l2, l3] = (largest as u32).to_be_bytes();
        [self.path, count as u8, d0, d1, l0, l1, l2, l3]
    }
}

/// Writes a block with one range, which is not empty; `None` if it does not fit, or is longer than a block
/// can say.
#[inline]
pub fn emit_one(out: &mut [u8], report: &Report, range: Range<u64>) -> Option<Written> {
    let length = u16::try_from(range.end - range.start - 1).ok()?;
    let (fixed, rest) = out.split_first_chunk_mut::<FIXED>()?;
    let (slot, rest) = rest.split_first_chunk_mut::<RANGE>()?;
    let mut written = Written {
        length: FIXED + RANGE,
        marks: false,
    };
    if let Some(marks) = report.marks {
        *rest.first_chunk_mut()? = marks.bytes();
        written.length += MARKS;
        written.marks = true;
    }
    *fixed = report.fixed(1, range.end - 1);
    let [l0, l1] = length.to_be_bytes();
    *slot = [l0, l1, 0, 0];
    Some(written)
}

/// Writes a block with as many of these ranges as fit. They come from the largest down and do not touch.
/// `None` if not even one fits.
#[inline]
pub fn emit(
    out: &mut [u8],
    report: &Report,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
) -> Option<Written> {
    let marks = if report.marks.is_some() { MARKS } else { 0 };
    let most = out.len().checked_sub(FIXED + marks)? / RANGE;
    let (fixed, rest) = out.split_first_chunk_mut::<FIXED>()?;
    let (slots, _) = rest.as_chunks_mut::<RANGE>();
    let mut count = 0;
    let mut largest = 0;
    let mut below = 0;
    for range in ranges.take(most.min(RANGES)) {
        let (low, high) = (*range.start(), *range.end());
        if count == 0 {
            largest = high;
        } else {
            let gap = below - high - 2;
            // Too far for the field: what is older is known by now, or will be sent again.
            let Ok(gap) = u16::try_from(gap) else { break };
            slots[count - 1][2..].copy_from_slice(&gap.to_be_bytes());
        }
        let length = (high - low).min(LONGEST_RANGE - 1);
        slots[count] = [0; RANGE];
        slots[count][..2].copy_from_slice(&(length as u16).to_be_bytes());
        count += 1;
        below = high - length;
        if length < high - low {
            break;
        }
    }
    if count == 0 {
        return None;
    }
    *fixed = report.fixed(count, largest);
    let length = FIXED + count * RANGE;
    if let Some(marks) = report.marks {
        out[length..length + MARKS].copy_from_slice(&marks.bytes());
    }
    Some(Written {
        length: length + marks,
        marks: marks != 0,
    })
}
