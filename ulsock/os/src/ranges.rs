//! Lists of address ranges, which are read without a lock, also by a signal handler.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Up to so many ranges at a time. None is at address zero.
pub struct Ranges<const CAPACITY: usize>([Place; CAPACITY]);

struct Place {
    base: AtomicUsize,
    /// Zero until the range may be used, and from before it goes.
    len: AtomicUsize,
}

impl<const CAPACITY: usize> Ranges<CAPACITY> {
    pub const fn new() -> Ranges<CAPACITY> {
        Ranges(
            [const {
                Place {
                    base: AtomicUsize::new(0),
                    len: AtomicUsize::new(0),
                }
            }; CAPACITY],
        )
    }

    /// `false` if there are too many.
    pub fn add(&self, base: usize, len: usize) -> bool {
        let place = self.0.iter().find(|place| {
            place.base.load(Ordering::Relaxed) == 0
                && place
                    .base
                    .compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        if let Some(place) = place {
            place.len.store(len, Ordering::Release);
        }
        place.is_some()
    }

    /// The one that begins there, if there is one.
    pub fn remove(&self, base: usize) {
        let mut places = self.0.iter();
        let begins = |place: &&Place| place.base.load(Ordering::Relaxed) == base;
        if let Some(place) = places.find(begins) {
            place.len.store(0, Ordering::Release);
            place.base.store(0, Ordering::Release);
        }
    }

    /// Base and length of each.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let range = |place: &Place| {
            let base = place.base.load(Ordering::Acquire);
            (base, place.len.load(Ordering::Acquire))
        };
        self.0.iter().map(range).filter(|(_, len)| *len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_and_go() {
        let ranges = Ranges::<2>::new();
        assert!(ranges.add(100, 10) && ranges.add(200, 20));
        assert!(!ranges.add(300, 30));
        ranges.remove(100);
        ranges.remove(999);
        assert_eq!(ranges.all().collect::<Vec<_>>(), [(200, 20)]);
        assert!(ranges.add(300, 30));
    }
}
