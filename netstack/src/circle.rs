//! Copies that any number of threads and processes leave in a circle of shared words, and that others read who are quick enough.
//!
//! A writer reserves its place by one addition and never waits; it may be stopped or killed at any point. So a reader believes
//! an entry only if its first word names its place and its checksum fits: what was overwritten, is half written, or was never
//! written at all is skipped. The checksum begins with a number that only those know who can read the memory ([`Counters::salt`]):
//! bytes of a stream that lie where an entry could begin do not pass for one. Reader and writers share no other word.

use alloc::vec::Vec;

use crate::ring::sync::{AtomicU64, Ordering};

/// Words that say what an entry is about, for whoever uses the circle.
pub const ABOUT: usize = 10;
/// Entries begin at multiples of so many words: a cache line.
pub const UNIT: usize = 8;
/// Place, checksum, length.
const OWN: usize = 3;
/// Words before the bytes.
const HEAD: usize = OWN + ABOUT;
/// Bytes of an entry at most.
pub const MOST: usize = 60 << 10;
/// Words that a reader copies at once; more than the longest entry has.
const CHUNK: usize = 64 << 10;
/// So long, in milliseconds, a reader waits for an entry that is being written.
const PATIENCE: u64 = 20;

/// The words of a circle that are changed by addition, in a cache line of their own.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Counters {
    /// Words given to entries so far.
    pub reserved: AtomicU64,
    /// Of those, by writers that are done with them.
    pub finished: AtomicU64,
    /// Entries, and their bytes.
    pub entries: AtomicU64,
    pub bytes: AtomicU64,
    /// Where checksums begin. Set once, before the first entry.
    pub salt: AtomicU64,
}

#[cfg(not(loom))]
crate::in_shared_memory!(Counters {
    reserved,
    finished,
    entries,
    bytes,
    salt
});

/// The words an entry of so many bytes takes.
pub const fn words_of(len: usize) -> usize {
    (HEAD + len.div_ceil(8)).next_multiple_of(UNIT)
}

fn fold(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A circle as its writers see it.
pub struct Circle<'a> {
    pub counters: &'a Counters,
    /// A multiple of [`UNIT`].
    pub words: &'a [AtomicU64],
}

impl Circle<'_> {
    /// Leaves an entry of `len` bytes, which `data` gives as words, unless it is too long. Where the circle is may be given back
    /// when nobody writes there: `may_write` is asked after the place is reserved, which whoever gives it back looks at
    /// after it has said so.
    pub fn put(
        &self,
        about: &[u64; ABOUT],
        len: usize,
        data: impl Iterator<Item = u64>,
        may_write: impl FnOnce() -> bool,
    ) -> bool {
        let words = words_of(len);
        if len > MOST || words > self.words.len() / 2 {
            return false;
        }
        let place = self
            .counters
            .reserved
            .fetch_add(words as u64, Ordering::SeqCst);
        let may_write = may_write();
        if may_write {
            self.counters.entries.fetch_add(1, Ordering::Relaxed);
            self.counters.bytes.fetch_add(len as u64, Ordering::Relaxed);
            self.write(place, about, len, data);
        }
        self.counters
            .finished
            .fetch_add(words as u64, Ordering::Release);
        may_write
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at % self.words.len() as u64) as usize]
    }

    fn write(&self, place: u64, about: &[u64], len: usize, data: impl Iterator<Item = u64>) {
        let salt = self.counters.salt.load(Ordering::Relaxed);
        let mut sum = fold(fold(salt, place), len as u64);
        let content = about.iter().copied().chain(data.take(len.div_ceil(8)));
        let mut at = place.wrapping_add(OWN as u64);
        for word in content {
            sum = fold(sum, word);
            self.word(at).store(word, Ordering::Relaxed);
            at = at.wrapping_add(1);
        }
        self.word(place.wrapping_add(1))
            .store(sum, Ordering::Relaxed);
        self.word(place.wrapping_add(2))
            .store(len as u64, Ordering::Relaxed);
        self.word(place)
            .store(place.wrapping_add(1), Ordering::Release);
    }
}

/// An entry as it was read.
pub struct Entry<'a> {
    pub about: &'a [u64; ABOUT],
    pub len: usize,
    words: &'a [u64],
}

impl Entry<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|it| it.to_ne_bytes()).collect();
        bytes.truncate(self.len);
        bytes
    }
}

enum Parsed<'a> {
    Whole(Entry<'a>),
    /// It goes beyond what was copied.
    Cut,
    None,
}

/// What begins at `place`, whose word is the first of `words`.
fn parse(words: &[u64], place: u64, salt: u64) -> Parsed<'_> {
    if words.len() < UNIT || words[0] != place.wrapping_add(1) {
        return Parsed::None;
    }
    let len = words[2] as usize;
    if words[2] > MOST as u64 {
        return Parsed::None;
    }
    if words.len() < words_of(len) {
        return Parsed::Cut;
    }
    let content = &words[OWN..HEAD + len.div_ceil(8)];
    let begin = fold(fold(salt, place), len as u64);
    if content.iter().fold(begin, |sum, word| fold(sum, *word)) != words[1] {
        return Parsed::None;
    }
    match content.split_first_chunk() {
        Some((about, words)) => Parsed::Whole(Entry { about, len, words }),
        None => Parsed::None,
    }
}

/// A reader's place in a circle, which it sees by copies only.
pub struct Reader {
    at: u64,
    size: u64,
    buffer: Vec<u64>,
    /// An entry that is not there yet, and since when.
    hole: Option<(u64, u64)>,
    /// On the way to the next entry that is whole.
    is_lost: bool,
}

impl Reader {
    /// Of a circle of so many words, from `at` on.
    pub fn new(size: usize, at: u64) -> Reader {
        Reader {
            at,
            size: size as u64,
            buffer: Vec::new(),
            hole: None,
            is_lost: false,
        }
    }

    /// Calls `each` with the entries up to `reserved`. `copy` fills a buffer with the words from an index on; `false` if it
    /// cannot. Whether all is read: otherwise some are still being written, or it was too much for one look.
    pub fn look(
        &mut self,
        (reserved, salt, now): (u64, u64, u64),
        mut copy: impl FnMut(usize, &mut [u64]) -> bool,
        mut each: impl FnMut(&Entry<'_>),
    ) -> bool {
        // Whoever writes there may write anything: a cursor that runs backwards, or ahead of everybody.
        self.at = self.at.min(reserved);
        let mut budget = 2 * self.size;
        while self.at < reserved && budget > 0 {
            if reserved - self.at > self.size {
                self.at = (reserved - self.size / 2) / UNIT as u64 * UNIT as u64;
                self.is_lost = true;
            }
            let n = (reserved - self.at).min(CHUNK as u64).min(self.size) as usize;
            let mut buffer = core::mem::take(&mut self.buffer);
            buffer.resize(n, 0);
            let is_copied = self.copy_out(&mut buffer, &mut copy);
            let done = match is_copied {
                true => self.walk(&buffer, (reserved, salt, now), &mut each),
                false => 0,
            };
            self.buffer = buffer;
            if done == 0 {
                return false;
            }
            self.at = self.at.saturating_add(done as u64);
            budget = budget.saturating_sub(done as u64);
        }
        self.at >= reserved
    }

    fn copy_out(&self, to: &mut [u64], copy: &mut impl FnMut(usize, &mut [u64]) -> bool) -> bool {
        let at = (self.at % self.size) as usize;
        let edge = to.len().min(self.size as usize - at);
        let (first, second) = to.split_at_mut(edge);
        copy(at, first) && (second.is_empty() || copy(0, second))
    }

    /// The entries in a copy of the words from `at` on; how many words are done with.
    fn walk(
        &mut self,
        words: &[u64],
        (reserved, salt, now): (u64, u64, u64),
        each: &mut impl FnMut(&Entry<'_>),
    ) -> usize {
        let mut done = 0;
        while done < words.len() {
            let place = self.at.wrapping_add(done as u64);
            // All that is reserved is in the copy, or more than the longest entry.
            let is_all = done == 0 || place + (words.len() - done) as u64 == reserved;
            match parse(&words[done..], place, salt) {
                Parsed::Whole(entry) => {
                    each(&entry);
                    (self.hole, self.is_lost) = (None, false);
                    done += words_of(entry.len);
                }
                Parsed::Cut if !is_all => return done,
                Parsed::Cut | Parsed::None => {
                    if !self.is_lost && self.is_worth_waiting(place, reserved, now) {
                        return done;
                    }
                    (self.hole, self.is_lost) = (None, true);
                    done += UNIT;
                }
            }
        }
        done.min(words.len())
    }

    fn is_worth_waiting(&mut self, place: u64, reserved: u64, now: u64) -> bool {
        let since = match self.hole {
            Some((hole, since)) if hole == place => since,
            _ => now,
        };
        self.hole = Some((place, since));
        now.saturating_sub(since) < PATIENCE && reserved - place < self.size / 2
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
