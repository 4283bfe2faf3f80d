//! Numbers of which only the low 32 bits travel.

/// `[W4]` The number nearest to `expected` that ends in these bits.
#[inline]
pub fn expand(low: u32, expected: u64) -> u64 {
    let ahead = low.wrapping_sub(expected as u32) as i32;
    match expected.checked_add_signed(ahead.into()) {
        Some(number) => number,
        // Before the beginning, or past the end of all numbers: the next one that exists.
        None if ahead < 0 => expected.wrapping_add_signed(ahead.into()) & u64::from(u32::MAX),
        None => u64::MAX,
    }
}

/// The part that travels.
#[inline]
pub fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{expand, low};

    proptest! {
        // [W4]
        #[test]
        fn near_numbers_survive(expected in 1u64 << 32..1 << 63, distance in -(1i64 << 31) + 1..1i64 << 31) {
            let number = expected.checked_add_signed(distance).unwrap();
            prop_assert_eq!(expand(low(number), expected), number);
        }

        // [W4]
        #[test]
        fn small_numbers_survive(expected in 0u64..1 << 31, number in 0u64..1 << 31) {
            prop_assert_eq!(expand(low(number), expected), number);
        }

        // [W7]
        #[test]
        fn any_number_has_these_bits(low in any::<u32>(), expected in 0..u64::MAX - (1 << 32)) {
            prop_assert_eq!(expand(low, expected) as u32, low);
        }
    }
}
