//! Maps by descriptor or connection number: small numbers of our own making, for which a hash that
//! withstands hostile keys is a waste.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// 2^64 divided by the golden ratio: neighbours land far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_i32(&mut self, number: i32) {
        self.write_u64(u64::from(number as u32));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table takes its places from the low bits, and the product's best are the high ones.
        self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let mut map = NumberMap::<i32, i32>::default();
        (-10..5000).for_each(|n| assert_eq!(map.insert(n, 2 * n), None));
        (-10..5000).for_each(|n| assert_eq!(map.get(&n), Some(&(2 * n))));
        assert_eq!(map.remove(&4000), Some(8000));
        assert_eq!(map.get(&4000), None);
    }

    #[test]
    fn neighbours_spread_over_small_tables() {
        let hash = |n: i32| {
            let mut hasher = NumberHasher::default();
            hasher.write_i32(n);
            hasher.finish() & 1023
        };
        let places: HashSet<u64> = (0..1024).map(hash).collect();
        assert!(places.len() > 600, "{}", places.len());
    }
}
