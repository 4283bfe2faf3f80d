//! How closely a waiter's waits follow each other: whether the next answer is likely to come before a sleep would pay.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How closely the waits of a thread follow each other.
#[derive(Default)]
pub struct Rhythm {
    /// When the latest wait began, in nanoseconds.
    began: AtomicU64,
    /// Rises with each wait that followed soon, and falls faster.
    score: AtomicU32,
    /// Waits that are left until the next one after an answer that came from this very CPU.
    near: AtomicU32,
    /// Answers in a row that came so.
    nears: AtomicU32,
    /// Waits since the thread last sent something.
    silent: AtomicU32,
    /// Waits that are left of those after the thread has opened a connection.
    opened: AtomicU32,
    /// Many bytes came at once: more of them are on their way, and better gathered than taken one by one.
    bulk: AtomicBool,
}

/// A wait that began so many nanoseconds after the one before followed it soon.
const SOON: u64 = 60_000;
const HIGHEST: u32 = 16;
/// From this score on a waiter is in rhythm.
const IN_RHYTHM: u32 = 8;
const LATE: u32 = 4;
/// So many waits after a connection was opened sleep at once: short ones have no more, and nobody looks at the clock for them.
const OPENED: u32 = 4;
/// After so many waits whatever was sent last has been answered.
const ANSWERED: u32 = 2;
/// Bytes of a receive after which the next wait sleeps.
const BULK: isize = 32 << 10;
/// So many waits peers that were on this CPU are taken to be there still.
const NEAR: u32 = 128;
/// So many such answers in a row are no accident: others run on this CPU, too.
const SURE: u32 = 6;

impl Rhythm {
    /// A connection begins. Whose connections are short has no rhythm: waits of theirs are awake in vain, or for too little.
    #[inline]
    pub fn note_opened(&self) {
        self.note_missed();
        self.opened.store(OPENED, Ordering::Relaxed);
    }

    /// A wait begins: is it one of the first since a connection was opened? Then it is not in rhythm, whatever the time.
    #[inline]
    pub fn is_first(&self) -> bool {
        let opened = self.opened.load(Ordering::Relaxed);
        if opened > 0 {
            self.opened.store(opened - 1, Ordering::Relaxed);
        }
        opened > 0
    }

    /// A wait begins at this time: is it in rhythm?
    #[inline]
    pub fn begin(&self, now: u64) -> bool {
        let before = self.began.load(Ordering::Relaxed);
        self.began.store(now, Ordering::Relaxed);
        let score = self.score.load(Ordering::Relaxed);
        let next = match now.saturating_sub(before) < SOON {
            true => (score + 1).min(HIGHEST),
            false => score.saturating_sub(LATE),
        };
        self.score.store(next, Ordering::Relaxed);
        next >= IN_RHYTHM && self.is_asked_for() && self.is_far() && !self.was_bulk()
    }

    /// Is what is waited for likely to be an answer? Who only reads a stream lets it gather.
    #[inline]
    fn is_asked_for(&self) -> bool {
        let silent = self.silent.load(Ordering::Relaxed);
        if silent <= ANSWERED {
            self.silent.store(silent + 1, Ordering::Relaxed);
        }
        silent < ANSWERED
    }

    /// The thread sends something.
    #[inline]
    pub fn note_sent(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn was_bulk(&self) -> bool {
        let bulk = self.bulk.load(Ordering::Relaxed);
        if bulk {
            self.bulk.store(false, Ordering::Relaxed);
        }
        bulk
    }

    /// A receive has brought so many bytes.
    #[inline]
    pub fn note_bytes(&self, count: isize) {
        if count >= BULK {
            self.bulk.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn is_far(&self) -> bool {
        let near = self.near.load(Ordering::Relaxed);
        if near > 0 {
            self.near.store(near - 1, Ordering::Relaxed);
        }
        near == 0
    }

    /// A wait in rhythm has found nothing, or too late.
    #[inline]
    pub fn note_missed(&self) {
        let score = self.score.load(Ordering::Relaxed);
        self.score
            .store(score.saturating_sub(LATE), Ordering::Relaxed);
    }

    /// An answer has come: when the waiter had given way to whoever runs on this CPU?
    #[inline]
    pub fn note_found(&self, near: bool) {
        let nears = match near {
            true => self.nears.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.nears.store(nears, Ordering::Relaxed);
        if nears >= SURE {
            // The first one after them is enough to say so again.
            self.nears.store(SURE - 1, Ordering::Relaxed);
            self.near.store(NEAR, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits this often, so many nanoseconds apart; whether the last is in rhythm.
    fn waits(rhythm: &Rhythm, now: &mut u64, apart: u64, count: u32) -> bool {
        (0..count).fold(false, |_, _| {
            *now += apart;
            rhythm.note_sent();
            rhythm.begin(*now)
        })
    }

    #[test]
    fn waits_that_follow_soon_make_a_rhythm() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        assert!(!waits(&rhythm, &mut now, SOON - 1, IN_RHYTHM));
        assert!(waits(&rhythm, &mut now, SOON - 1, 1));
        assert!(!waits(&rhythm, &mut now, 1_000_000, 1), "a pause ends it");
        assert!(!waits(&rhythm, &mut now, 1_000_000, 1000));
    }

    #[test]
    fn who_waits_in_vain_stops() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        waits(&rhythm, &mut now, 1_000, 100);
        rhythm.note_missed();
        rhythm.note_missed();
        rhythm.note_missed();
        assert!(!waits(&rhythm, &mut now, 1_000, 1));
        assert!(waits(&rhythm, &mut now, 1_000, 10), "and finds back");
    }

    #[test]
    fn the_first_waits_on_a_connection_sleep() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        assert!(waits(&rhythm, &mut now, 1_000, 100) && !rhythm.is_first());
        rhythm.note_opened();
        assert!((0..OPENED).all(|_| rhythm.is_first()) && !rhythm.is_first());
        assert!(waits(&rhythm, &mut now, 1_000, 1), "one is not many");
        (0..3).for_each(|_| rhythm.note_opened());
        assert!(!waits(&rhythm, &mut now, 1_000, 1));
    }

    #[test]
    fn for_a_peer_on_this_cpu_nobody_stays_awake() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        assert!(waits(&rhythm, &mut now, 1_000, 100));
        (1..SURE).for_each(|_| rhythm.note_found(true));
        assert!(waits(&rhythm, &mut now, 1_000, 1), "that was an accident");
        rhythm.note_found(true);
        assert!(!waits(&rhythm, &mut now, 1_000, NEAR));
        assert!(waits(&rhythm, &mut now, 1_000, 1), "it may have moved");
        rhythm.note_found(true);
        assert!(!waits(&rhythm, &mut now, 1_000, 1), "it has not");
    }

    #[test]
    fn bulk_is_slept_for() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        assert!(waits(&rhythm, &mut now, 1_000, 100));
        rhythm.note_bytes(BULK);
        assert!(!waits(&rhythm, &mut now, 1_000, 1));
        assert!(
            waits(&rhythm, &mut now, 1_000, 1),
            "that was the last of it"
        );
        rhythm.note_bytes(BULK - 1);
        rhythm.note_bytes(-1);
        assert!(waits(&rhythm, &mut now, 1_000, 1));
    }

    #[test]
    fn who_only_reads_sleeps() {
        let (rhythm, mut now) = (Rhythm::default(), 1 << 40);
        assert!(waits(&rhythm, &mut now, 1_000, 100));
        assert!(rhythm.begin(now), "the rest of the answer");
        assert!(!rhythm.begin(now) && !rhythm.begin(now), "a stream");
        assert!(waits(&rhythm, &mut now, 1_000, 1));
    }
}
