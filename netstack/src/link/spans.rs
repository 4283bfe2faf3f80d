//! A set of numbers as sorted, disjoint ranges that do not touch: packets received, bytes out of
//! order, bytes to be sent again.

use alloc::collections::VecDeque;
use core::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(VecDeque<Range<u64>>);

impl Spans {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn first(&self) -> Option<Range<u64>> {
        self.0.front().cloned()
    }

    pub fn last(&self) -> Option<Range<u64>> {
        self.0.back().cloned()
    }

    #[inline]
    pub fn last_but_one(&self) -> Option<Range<u64>> {
        self.0.get(self.0.len().checked_sub(2)?).cloned()
    }

    /// From the smallest up.
    pub fn ascending(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    /// From the largest down.
    pub fn descending(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().rev().cloned()
    }

    /// The first range that reaches this number or lies beyond it.
    fn find(&self, number: u64) -> usize {
        // New numbers mostly come at the end.
        match self.0.back() {
            Some(last) if last.end < number => self.0.len(),
            Some(last) if last.start <= number => self.0.len() - 1,
            _ => self.0.partition_point(|span| span.end < number),
        }
    }

    pub fn contains(&self, number: u64) -> bool {
        self.0
            .get(self.find(number + 1))
            .is_some_and(|span| span.contains(&number))
    }

    /// Whether the two have a number in common.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.0
            .get(self.find(range.start + 1))
            .is_some_and(|span| span.start < range.end)
    }

    /// Whether adding this range would make one range more.
    pub fn would_grow(&self, range: &Range<u64>) -> bool {
        self.0
            .get(self.find(range.start))
            .is_none_or(|span| range.end < span.start)
    }

    /// Adds a range; `fresh` hears of the parts that were not there.
    #[inline]
    pub fn insert(&mut self, range: Range<u64>, mut fresh: impl FnMut(Range<u64>)) {
        // What goes on where the last one ends, as most does.
        if let Some(last) = self.0.back_mut()
            && (last.start..=last.end).contains(&range.start)
            && range.end > last.end
        {
            let more = last.end..range.end;
            last.end = range.end;
            return fresh(more);
        }
        if !range.is_empty() {
            self.insert_anywhere(range, fresh);
        }
    }

    #[inline(never)]
    fn insert_anywhere(&mut self, range: Range<u64>, mut fresh: impl FnMut(Range<u64>)) {
        let at = self.find(range.start);
        let (mut start, mut end) = (range.start, range.end);
        let mut from = range.start;
        let mut merged = 0;
        while let Some(span) = self.0.get(at + merged) {
            if span.start > range.end {
                break;
            }
            if from < span.start {
                fresh(from..span.start);
            }
            from = from.max(span.end);
            start = start.min(span.start);
            end = end.max(span.end);
            merged += 1;
        }
        if from < range.end {
            fresh(from..range.end);
        }
        match merged {
            0 => self.0.insert(at, start..end),
            _ => {
                self.0[at] = start..end;
                self.0.drain(at + 1..at + merged);
            }
        }
    }

    /// Adds a range, whatever was there.
    #[inline]
    pub fn add(&mut self, range: Range<u64>) {
        self.insert(range, |_| {});
    }

    /// Takes a range out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut at = self.find(range.start + 1);
        while let Some(span) = self.0.get(at).cloned() {
            if span.start >= range.end {
                break;
            }
            let (left, right) = (span.start..range.start, range.end..span.end);
            match (left.is_empty(), right.is_empty()) {
                (true, true) => {
                    self.0.remove(at);
                }
                (false, true) => {
                    self.0[at] = left;
                    at += 1;
                }
                (true, false) => {
                    self.0[at] = right;
                    break;
                }
                (false, false) => {
                    self.0[at] = left;
                    self.0.insert(at + 1, right);
                    break;
                }
            }
        }
    }

    pub fn drop_first(&mut self) -> Option<Range<u64>> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::Spans;

    fn numbers(spans: &Spans) -> Vec<u64> {
        let mut all: Vec<u64> = spans.descending().flatten().collect();
        all.sort_unstable();
        all
    }

    proptest! {
        #[test]
        fn is_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 1..60)) {
            let (mut spans, mut model) = (Spans::default(), BTreeSet::new());
            for (add, start, length) in steps {
                let range = start..start + length;
                prop_assert_eq!(spans.overlaps(&range) && !range.is_empty(), range.clone().any(|n| model.contains(&n)));
                if add {
                    let mut fresh = Vec::new();
                    let grows = spans.would_grow(&range) && !range.is_empty();
                    let count = spans.count();
                    spans.insert(range.clone(), |part| fresh.extend(part));
                    prop_assert_eq!(spans.count() > count, grows);
                    let expected: Vec<u64> = range.filter(|n| model.insert(*n)).collect();
                    prop_assert_eq!(fresh, expected);
                } else {
                    spans.remove(range.clone());
                    range.for_each(|n| { model.remove(&n); });
                }
                prop_assert_eq!(numbers(&spans), model.iter().copied().collect::<Vec<_>>());
                let ends: Vec<_> = spans.descending().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[1].end < pair[0].start));
                prop_assert!((0..80).all(|n| spans.contains(n) == model.contains(&n)));
            }
        }
    }
}
