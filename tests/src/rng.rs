//! A small seeded generator (SplitMix64), so that every run of a test can be repeated from its seed.

/// Deterministic random numbers.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// Streams of different `(seed, stream)` pairs are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xA24B_AED4_963E_E407));
        rng.bits();
        rng
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number in `0..limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "an empty range has no member");
        (self.bits() % limit as u64) as usize
    }

    /// A size in `1..=max`, each power of two equally likely.
    pub fn size(&mut self, max: usize) -> usize {
        let exponent = self.below(max.ilog2() as usize + 1);
        let low = 1 << exponent;
        (low + self.below(low)).min(max)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn sizes_cover_the_range_and_repeat() {
        let mut rng = Rng::new(1, 2);
        let sizes: Vec<usize> = (0..10_000).map(|_| rng.size(1000)).collect();
        assert_eq!(sizes.iter().min(), Some(&1));
        assert_eq!(sizes.iter().max(), Some(&1000));
        assert_eq!(Rng::new(1, 2).size(1000), sizes[0]);
    }
}
