//! When to upgrade: what became of earlier connections of the same listener, or to the same port.
//!
//! An upgrade costs about as much as a dozen kernel calls, so it must not come to those that end soon,
//! and should come at once to those that stay. Each history counts how long its connections were, and
//! from that chooses the number of calls after which the next ones would have cost least. Old counts
//! fade, so that another behaviour is learned. Pure bookkeeping: private to the process, without
//! locks; a count that two threads lose to each other does no harm.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::runtime::process;
use crate::state::record::{Counts, Record, Role, flag};

/// Lengths are told apart in steps of a half or a third, and finer where upgrades begin to pay.
const STEPS: usize = 18;
const LENGTHS: [u32; STEPS] = [
    1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256,
];
/// Calls before an upgrade, of those that can be chosen: 2 to 64.
const CHOICES: std::ops::RangeInclusive<usize> = 1..=13;
/// Before anything is known.
const FIRST: u32 = 8;
/// Connections between two choices, and how many of the past are remembered.
const TERM: u32 = 16;
const MEMORY: u32 = 64;
/// From how many that were tried on it is told that trying is in vain.
const SOME: u32 = 4;

/// Costs in quarters of a kernel call, as measured with round trips of 64 B: the upgrade of a
/// connection, both ends together (50 to 65; in programs whose threads hand work on to each other it saves more); one
/// that nobody answers; a call on a ring, with some sleeps.
const KERNEL: u32 = 4;
const UPGRADE: u32 = 50;
const ATTEMPT: u32 = 8;
const RING: u32 = 1;

/// Calls before an upgrade: of the first connections, and the least and the most that can be chosen.
pub fn range() -> [u32; 3] {
    [FIRST, LENGTHS[*CHOICES.start()], LENGTHS[*CHOICES.end()]]
}

pub struct History {
    lengths: [AtomicU32; STEPS],
    /// Of those that were to be upgraded, how many were not, in units of 1/8.
    tried: AtomicU32,
    failed: AtomicU32,
    /// Connections since the last choice.
    ended: AtomicU32,
    /// The choice; zero: none yet.
    after: AtomicU32,
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Before an upgrade was tried.
    Plain,
    /// It was tried in vain.
    Failed,
    Upgraded,
}

impl History {
    pub const fn new() -> History {
        History {
            lengths: [const { AtomicU32::new(0) }; STEPS],
            tried: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            after: AtomicU32::new(0),
        }
    }

    /// Calls after which a new connection is upgraded.
    #[inline]
    pub fn after(&self) -> u32 {
        match self.after.load(Ordering::Relaxed) {
            0 => FIRST,
            after => after,
        }
    }

    /// Of the last ones that were to be upgraded, and were some, three of four were not.
    fn is_in_vain(&self) -> bool {
        let tried = self.tried.load(Ordering::Relaxed);
        tried >= 8 * SOME
            && 4 * u64::from(self.failed.load(Ordering::Relaxed)) >= 3 * u64::from(tried)
    }

    /// A connection has ended after so many calls.
    #[inline]
    pub fn note(&self, calls: u64, end: End) {
        add(&self.lengths[step(calls)], 1);
        if end != End::Plain {
            add(&self.tried, 8);
            add(&self.failed, if end == End::Failed { 8 } else { 0 });
        }
        add(&self.ended, 1);
        if self.ended.load(Ordering::Relaxed) >= TERM {
            self.choose();
        }
    }

    #[cold]
    fn choose(&self) {
        self.ended.store(0, Ordering::Relaxed);
        let known = self.lengths.each_ref().map(|n| n.load(Ordering::Relaxed));
        let after = self.cheapest(&known);
        self.after.store(after, Ordering::Relaxed);
        if known.iter().sum::<u32>() >= MEMORY {
            self.lengths.iter().for_each(|n| fade(n, 2));
        }
        fade(&self.tried, 8);
        fade(&self.failed, 8);
    }

    /// The number of calls after which connections of these lengths would have cost least to upgrade;
    /// of equals the usual one, then the least.
    fn cheapest(&self, known: &[u32; STEPS]) -> u32 {
        let tried = u64::from(self.tried.load(Ordering::Relaxed)) + 8;
        let failed = u64::from(self.failed.load(Ordering::Relaxed)).min(tried);
        let done = tried - failed;
        let kernel = u64::from(KERNEL) * tried;
        // What the upgrade costs, and a call after it, on average.
        let upgrade = u64::from(ATTEMPT) * failed + u64::from(UPGRADE) * done;
        let later = u64::from(KERNEL) * failed + u64::from(RING) * done;
        // From the longest down: connections that are upgraded, and their calls.
        let (mut count, mut calls) = (0, 0);
        let all: u64 = LENGTHS
            .iter()
            .zip(known)
            .map(|(length, n)| u64::from(length * n))
            .sum();
        let mut best = (u64::MAX, FIRST);
        for step in (0..STEPS).rev() {
            let after = u64::from(LENGTHS[step]);
            count += u64::from(known[step]);
            calls += u64::from(known[step]) * after;
            if !CHOICES.contains(&step) {
                continue;
            }
            let before = all - calls + count * after;
            let cost = before * kernel + count * upgrade + (calls - count * after) * later;
            if cost < best.0 || cost == best.0 && best.1 != FIRST {
                best = (cost, LENGTHS[step]);
            }
        }
        best.1
    }
}

/// The step that a length belongs to.
#[inline]
fn step(calls: u64) -> usize {
    let longer = LENGTHS.partition_point(|length| u64::from(*length) <= calls);
    longer.saturating_sub(1)
}

fn add(counter: &AtomicU32, n: u32) {
    let sum = counter.load(Ordering::Relaxed).saturating_add(n);
    counter.store(sum, Ordering::Relaxed);
}

/// One part in `parts` is forgotten.
fn fade(counter: &AtomicU32, parts: u32) {
    let known = counter.load(Ordering::Relaxed);
    counter.store(known - known.div_ceil(parts), Ordering::Relaxed);
}

os::process_wide! {
    /// Of this process's listeners, and of the ports that it connects to; some may share one.
    static HISTORIES: [History; 64] = [const { History::new() }; 64];
}

#[inline]
fn of_key(key: u32) -> &'static History {
    &HISTORIES[key as usize % HISTORIES.len()]
}

fn history(record: &Record) -> &'static History {
    of_key(record.history.load(Ordering::Relaxed))
}

/// Of connections that are likely to be alike: `kin` is a number that they share. Listeners and ports side by side are
/// kept apart.
#[inline]
pub fn key(role: Role, kin: u32) -> u32 {
    2 * kin + u32::from(role == Role::Connected)
}

/// Calls after which a new connection of this history is upgraded.
#[inline]
pub fn after(key: u32) -> u32 {
    let configured = process::config().upgrade_after;
    configured.unwrap_or_else(|| of_key(key).after())
}

/// A connection that never had a record has ended.
#[inline]
pub fn ended_young(key: u32, calls: u32) {
    of_key(key).note(calls.into(), End::Plain);
}

/// A connection has got its record, after so many calls.
#[inline]
pub fn born(record: &Record, key: u32, calls: u32) {
    record.history.store(key, Ordering::Relaxed);
    record.calls.store(calls, Ordering::Relaxed);
    set_after(record, process::config().upgrade_after);
}

/// So many calls before it is upgraded; `None`: as earlier connections suggest.
#[inline]
pub fn set_after(record: &Record, after: Option<u32>) {
    let after = after.unwrap_or_else(|| history(record).after());
    record.first_look.store(after, Ordering::Relaxed);
    record.next_look.store(after, Ordering::Relaxed);
}

/// Did earlier connections of its history try in vain, as a rule? What is told is forgotten with the connections that end
/// meanwhile, and then some try again.
pub fn is_in_vain(record: &Record) -> bool {
    history(record).is_in_vain()
}

/// A socket has got its record before it is a connection: no call of it is one to look at.
pub fn not_yet(record: &Record) {
    record.next_look.store(u32::MAX, Ordering::Relaxed);
}

/// It has ended: what it was like is told to those that follow.
#[inline]
pub fn ended(record: &Record) {
    let calls = record.calls.load(Ordering::Relaxed);
    let count = |counts: &Counts| counts.messages.load(Ordering::Relaxed);
    let end = if record.has(flag::UPGRADED) {
        End::Upgraded
    } else if calls >= record.first_look.load(Ordering::Relaxed) {
        End::Failed
    } else {
        End::Plain
    };
    let messages = count(&record.tx.counts) + count(&record.rx.counts);
    history(record).note(messages.max(calls.into()), end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes connections of these lengths, upgraded as the history says; how many of them were.
    fn run(history: &History, lengths: &[u64], peer: bool, times: usize) -> usize {
        let ends = lengths.iter().cycle().take(times).map(|calls| {
            let end = match (*calls >= u64::from(history.after()), peer) {
                (false, _) => End::Plain,
                (true, false) => End::Failed,
                (true, true) => End::Upgraded,
            };
            history.note(*calls, end);
            end
        });
        ends.filter(|end| *end != End::Plain).count()
    }

    #[test]
    fn steps_begin_where_they_say() {
        for (index, length) in LENGTHS.into_iter().enumerate() {
            assert_eq!(step(u64::from(length)), index, "{length}");
            let last = LENGTHS
                .get(index + 1)
                .map_or(1 << 40, |next| u64::from(next - 1));
            assert_eq!(step(last), index, "{last}");
        }
        assert_eq!(step(0), 0);
    }

    #[test]
    fn the_first_ones_are_upgraded_after_a_few_calls() {
        assert_eq!(History::new().after(), FIRST);
    }

    #[test]
    fn those_that_end_soon_are_left_alone() {
        for length in [2, 4, 8, 9, 15, 16, 19] {
            let history = History::new();
            run(&history, &[length], true, 32);
            assert_eq!(run(&history, &[length], true, 500), 0, "{length} calls");
        }
    }

    #[test]
    fn those_that_stay_are_upgraded_at_once() {
        for length in [20, 24, 40, 100, 1_000, 1_000_000] {
            let history = History::new();
            run(&history, &[length], true, 32);
            assert_eq!(history.after(), 2, "{length} calls");
        }
    }

    #[test]
    fn a_few_short_ones_among_those_that_stay_do_no_harm() {
        let history = History::new();
        let mut lengths = [1000; 10];
        lengths[0] = 4;
        run(&history, &lengths, true, 100);
        assert_eq!(history.after(), 2);
    }

    #[test]
    fn a_few_that_stay_among_short_ones_wait_until_those_have_ended() {
        let history = History::new();
        let lengths = [4, 4, 4, 4, 4, 4, 4, 200];
        run(&history, &lengths, true, 100);
        assert!((5..=8).contains(&history.after()), "{}", history.after());
    }

    #[test]
    fn another_behaviour_is_learned() {
        let history = History::new();
        run(&history, &[8], true, 10_000);
        assert_eq!(run(&history, &[8], true, 16), 0);
        run(&history, &[100], true, 300);
        assert_eq!(history.after(), 2);
        run(&history, &[8], true, 300);
        assert_eq!(run(&history, &[8], true, 16), 0);
    }

    #[test]
    fn what_was_tried_in_vain_is_tried_again_later() {
        let history = History::new();
        assert!(!history.is_in_vain());
        run(&history, &[50], false, 3);
        assert!(!history.is_in_vain(), "after three");
        run(&history, &[50], false, 1);
        assert!(history.is_in_vain());
        // Such as are spliced count no calls.
        run(&history, &[0], false, 1000);
        assert!(!history.is_in_vain(), "a thousand later");
        run(&history, &[50], true, 4);
        run(&history, &[50], false, 4);
        assert!(!history.is_in_vain(), "every other one was upgraded");
    }

    #[test]
    fn where_nobody_answers_there_are_few_attempts() {
        let history = History::new();
        run(&history, &[50], false, 64);
        let attempts = run(&history, &[50], false, 10_000);
        assert!((1..1500).contains(&attempts), "{attempts} of 10000");
        run(&history, &[50], true, 1000);
        assert_eq!(history.after(), 2, "somebody does, by now");
    }
}
