//! The pattern that test streams carry: each byte is a function of its direction and position.
//!
//! The function can be inverted, so a wrong byte also tells where it came from: a report says how
//! many bytes were lost or repeated, not only that something differs.

use std::fmt;

const FIRST: u64 = 0x9E37_79B9_7F4A_7C15;
const SECOND: u64 = 0xD6E8_FEB8_6659_FD93;
const DIRECTION_SHIFT: u32 = 56;
/// Bytes that a fragment needs so that its position can be found, whatever its alignment.
pub const LOCATABLE: usize = 15;

/// The eight bytes at word `index` of `direction`.
fn word(direction: u8, index: u64) -> u64 {
    let mut x = index | u64::from(direction) << DIRECTION_SHIFT;
    x = x.wrapping_mul(FIRST);
    x ^= x >> 32;
    x.wrapping_mul(SECOND)
}

/// The direction and index whose [`word`] is `x`.
fn inverse(x: u64) -> (u8, u64) {
    let mut x = x.wrapping_mul(const { reciprocal(SECOND) });
    x ^= x >> 32;
    x = x.wrapping_mul(const { reciprocal(FIRST) });
    (
        (x >> DIRECTION_SHIFT) as u8,
        x & ((1 << DIRECTION_SHIFT) - 1),
    )
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
const fn reciprocal(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// The byte at `position` of `direction`.
fn byte(direction: u8, position: u64) -> u8 {
    word(direction, position / 8).to_le_bytes()[(position % 8) as usize]
}

/// Bytes of `length` before the next word boundary of the stream.
fn unaligned(position: u64, length: usize) -> usize {
    ((8 - position % 8) as usize % 8).min(length)
}

/// Writes the bytes of `direction` from `position` on into `out`.
pub fn fill(direction: u8, position: u64, out: &mut [u8]) {
    let (head, rest) = out.split_at_mut(unaligned(position, out.len()));
    for (place, slot) in (position..).zip(head.iter_mut()) {
        *slot = byte(direction, place);
    }
    let start = position + head.len() as u64;
    let mut index = start / 8;
    let mut words = rest.chunks_exact_mut(8);
    for slot in &mut words {
        slot.copy_from_slice(&word(direction, index).to_le_bytes());
        index += 1;
    }
    for (place, slot) in (index * 8..).zip(words.into_remainder()) {
        *slot = byte(direction, place);
    }
}

/// Checks that `found` are the bytes of `direction` from `position` on.
pub fn check(direction: u8, position: u64, found: &[u8]) -> Result<(), Mismatch> {
    let head = unaligned(position, found.len());
    let start = (position + head as u64) / 8;
    let words = found[head..].chunks_exact(8);
    let tail = found.len() - words.remainder().len();
    let wrong_word = words
        .zip(start..)
        .position(|(slot, index)| slot != word(direction, index).to_le_bytes())
        .map(|number| head + number * 8..head + number * 8 + 8);
    let suspects = [Some(0..head), wrong_word, Some(tail..found.len())];
    suspects
        .into_iter()
        .flatten()
        .flatten()
        .find(|&at| found[at] != byte(direction, position + at as u64))
        .map_or(Ok(()), |at| {
            Err(Mismatch::new(direction, position + at as u64, &found[at..]))
        })
}

/// Where the fragment `found` belongs, if its first [`LOCATABLE`] bytes are from a pattern.
pub fn locate(found: &[u8]) -> Option<(u8, u64)> {
    (0..8).find_map(|shift| {
        let bytes = found.get(shift..shift + 8)?.try_into().ok()?;
        let (direction, index) = inverse(u64::from_le_bytes(bytes));
        let position = (index * 8).checked_sub(shift as u64)?;
        let sample = &found[..found.len().min(LOCATABLE)];
        let plausible = index < 1 << 48
            && (position..)
                .zip(sample)
                .all(|(place, &b)| b == byte(direction, place));
        plausible.then_some((direction, position))
    })
}

/// A byte that is not the one its position demands.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    direction: u8,
    position: u64,
    belongs: Option<(u8, u64)>,
    found: Vec<u8>,
}

impl Mismatch {
    fn new(direction: u8, position: u64, found: &[u8]) -> Self {
        Self {
            direction,
            position,
            belongs: locate(found),
            found: found[..found.len().min(16)].to_vec(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            position,
            belongs,
            found,
        } = self;
        write!(f, "wrong byte at {position} of direction {direction}: ")?;
        match *belongs {
            Some((other, place)) if other != *direction => {
                write!(f, "what follows is position {place} of direction {other}")
            }
            Some((_, place)) if place > *position => write!(
                f,
                "what follows is position {place}, {} bytes lost",
                place - position
            ),
            Some((_, place)) => write!(
                f,
                "what follows is position {place}, {} bytes repeated",
                position - place
            ),
            None => write!(f, "found {found:02x?}, which is no part of any pattern"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check, fill, locate};

    #[test]
    fn any_cut_checks_and_locates() {
        for start in 0..40u64 {
            for length in 0..60usize {
                let mut bytes = vec![0; length];
                fill(3, start, &mut bytes);
                assert_eq!(check(3, start, &bytes), Ok(()));
                if length >= super::LOCATABLE {
                    assert_eq!(locate(&bytes), Some((3, start)));
                }
                for at in 0..length {
                    let mut wrong = bytes.clone();
                    wrong[at] ^= 1;
                    assert!(check(3, start, &wrong).is_err(), "byte {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn a_mismatch_says_what_happened() {
        let mut bytes = vec![0; 100];
        fill(1, 1000, &mut bytes);
        let lost = check(1, 990, &bytes).unwrap_err().to_string();
        assert!(lost.contains("10 bytes lost"), "{lost}");
        let repeated = check(1, 1003, &bytes).unwrap_err().to_string();
        assert!(repeated.contains("3 bytes repeated"), "{repeated}");
        let other = check(2, 1000, &bytes).unwrap_err().to_string();
        assert!(other.contains("of direction 1"), "{other}");
    }
}
