use super::*;
use alloc::vec;

const SIZE: usize = 64 * UNIT;
const SALT: u64 = 77;

struct World {
    counters: Counters,
    words: Vec<AtomicU64>,
}

impl World {
    fn new(size: usize) -> World {
        let counters = Counters::default();
        counters.salt.store(SALT, Ordering::Relaxed);
        let words = (0..size).map(|_| AtomicU64::new(0)).collect();
        World { counters, words }
    }

    fn circle(&self) -> Circle<'_> {
        Circle {
            counters: &self.counters,
            words: &self.words,
        }
    }

    fn put(&self, bytes: &[u8]) -> bool {
        let about = [bytes.len() as u64; ABOUT];
        self.circle()
            .put(&about, bytes.len(), words(bytes), || true)
    }

    fn reserved(&self) -> u64 {
        self.counters.reserved.load(Ordering::Relaxed)
    }

    fn look(&self, reader: &mut Reader, now: u64) -> (Vec<Vec<u8>>, bool) {
        let mut found = Vec::new();
        let copy = |at: usize, to: &mut [u64]| {
            for (n, word) in to.iter_mut().enumerate() {
                *word = self.words[at + n].load(Ordering::Relaxed);
            }
            true
        };
        let done = reader.look((self.reserved(), SALT, now), copy, |entry| {
            assert_eq!(entry.about, &[entry.len as u64; ABOUT]);
            found.push(entry.bytes());
        });
        (found, done)
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

#[test]
fn all_is_read_in_order_over_many_laps() {
    let world = World::new(SIZE);
    let mut reader = Reader::new(SIZE, 0);
    for n in 0..500_usize {
        let bytes = vec![n as u8; n % 700];
        assert!(world.put(&bytes));
        assert_eq!(world.look(&mut reader, 0), (vec![bytes], true), "{n}");
    }
    let finished = world.counters.finished.load(Ordering::Relaxed);
    assert_eq!(finished, world.reserved());
}

#[test]
fn who_is_too_slow_gets_the_latest_whole() {
    let world = World::new(SIZE);
    let mut reader = Reader::new(SIZE, 0);
    let all: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n; 50 + n as usize]).collect();
    for bytes in &all {
        world.put(bytes);
    }
    let (found, done) = world.look(&mut reader, 0);
    assert!(done && found.len() > 5, "{}", found.len());
    assert_eq!(found[..], all[all.len() - found.len()..]);
    world.put(b"next");
    assert_eq!(world.look(&mut reader, 0).0, [b"next"]);
}

#[test]
fn what_is_too_long_or_comes_too_late_is_not_written() {
    let world = World::new(SIZE);
    assert!(!world.put(&vec![0; SIZE * 8]));
    assert!(!world.circle().put(&[0; ABOUT], 3, words(b"abc"), || false));
    assert_eq!(world.counters.entries.load(Ordering::Relaxed), 0);
    let counters = &world.counters;
    let finished = counters.finished.load(Ordering::Relaxed);
    assert_eq!(finished, world.reserved(), "nobody is still there");
    assert!(world.words.iter().all(|it| it.load(Ordering::Relaxed) == 0));
}

/// Its writer was stopped or killed: it is waited for, for so long.
#[test]
fn a_hole_is_skipped_after_a_while() {
    let world = World::new(SIZE);
    let mut reader = Reader::new(SIZE, 0);
    world.put(b"first");
    let hole = words_of(40) as u64;
    world.counters.reserved.fetch_add(hole, Ordering::Relaxed);
    world.put(b"behind");
    assert_eq!(
        world.look(&mut reader, 100),
        (vec![b"first".to_vec()], false)
    );
    assert_eq!(world.look(&mut reader, 110), (vec![], false));
    let behind = vec![b"behind".to_vec()];
    assert_eq!(world.look(&mut reader, 130), (behind, true));
    world.counters.reserved.fetch_add(hole, Ordering::Relaxed);
    assert_eq!(world.look(&mut reader, 200), (vec![], false));
    assert_eq!(world.look(&mut reader, 230), (vec![], true));
}

/// What a stream carries can look like an entry, but for the sum.
#[test]
fn bytes_of_a_stream_do_not_pass_for_an_entry() {
    let world = World::new(SIZE);
    let mut reader = Reader::new(SIZE, 0);
    let inner = World::new(SIZE);
    inner.counters.salt.store(SALT + 1, Ordering::Relaxed);
    inner.put(b"forged");
    let lap = SIZE as u64;
    inner.words[0].store(lap + 1, Ordering::Relaxed);
    for (to, from) in world.words.iter().zip(&inner.words) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    world
        .counters
        .reserved
        .store(lap + UNIT as u64 * 4, Ordering::Relaxed);
    reader.at = lap;
    assert_eq!(world.look(&mut reader, 0).0, Vec::<Vec<u8>>::new());
    assert_eq!(world.look(&mut reader, 50), (vec![], true));
}

/// Nothing that lies there makes the reader go on for ever, or out of bounds.
#[test]
fn any_content_is_survived() {
    let world = World::new(SIZE);
    let mut reader = Reader::new(SIZE, 0);
    let mut state = 88172645463325252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..2000_u64 {
        for word in &world.words {
            let at = random() % 3 * SIZE as u64;
            let value = [random(), random() % 80_000, at + 1, u64::MAX][round as usize % 4];
            word.store(value, Ordering::Relaxed);
        }
        let reserved = [random(), random() % 5000, u64::MAX, round * 13][(round / 4) as usize % 4];
        world.counters.reserved.store(reserved, Ordering::Relaxed);
        world.look(&mut reader, round * 30);
    }
}
