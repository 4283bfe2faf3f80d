//! The circle of copies: writers who never wait for each other, and a reader who gets nothing but whole entries. What it
//! gives back is touched by nobody.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use netstack::circle::{ABOUT, Circle, Counters, Reader, UNIT, words_of};
use netstack::ring::sync::AtomicU64;

use super::check;

/// An entry of a word.
const ENTRY: usize = 2 * UNIT;
const SALT: u64 = 5;

struct World {
    counters: Counters,
    words: Vec<AtomicU64>,
    is_on: AtomicBool,
    is_given_back: AtomicBool,
}

impl World {
    /// With a circle of so many entries.
    fn new(entries: usize) -> Arc<World> {
        assert_eq!(words_of(8), ENTRY);
        let counters = Counters::default();
        counters.salt.store(SALT, Ordering::Relaxed);
        Arc::new(World {
            counters,
            words: (0..entries * ENTRY).map(|_| AtomicU64::new(0)).collect(),
            is_on: AtomicBool::new(true),
            is_given_back: AtomicBool::new(false),
        })
    }

    fn put(&self, value: u64) {
        let circle = Circle {
            counters: &self.counters,
            words: &self.words,
        };
        let may_write = || {
            fence(Ordering::SeqCst);
            self.is_on.load(Ordering::SeqCst)
        };
        let data = std::iter::once_with(|| {
            assert!(!self.is_given_back.load(Ordering::SeqCst));
            value
        });
        circle.put(&[value; ABOUT], 8, data, may_write);
    }

    /// Entries are of one value each, and no value comes twice.
    fn read(&self, reader: &mut Reader, values: &mut Vec<u64>, now: u64) {
        let reserved = self.counters.reserved.load(Ordering::Acquire);
        let copy = |at: usize, to: &mut [u64]| {
            for (n, word) in to.iter_mut().enumerate() {
                *word = self.words[at + n].load(Ordering::Acquire);
            }
            true
        };
        reader.look((reserved, SALT, now), copy, |entry| {
            assert_eq!(entry.bytes(), entry.about[0].to_ne_bytes());
            assert!(entry.about.iter().all(|it| *it == entry.about[0]));
            assert!(!values.contains(&entry.about[0]));
            values.push(entry.about[0]);
        });
    }
}

fn spawn(world: &Arc<World>, f: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || f(&world))
}

/// Two writers, one of them of so many entries, leave them in a circle with room for `room`, and a reader looks
/// meanwhile and afterwards; what he got.
fn write_and_read(entries: u64, room: usize) -> Vec<u64> {
    let world = World::new(room);
    let one = spawn(&world, |world| world.put(10));
    let other = spawn(&world, move |world| {
        (20..20 + entries).for_each(|it| world.put(it))
    });
    let (mut reader, mut values) = (Reader::new(room * ENTRY, 0), Vec::new());
    world.read(&mut reader, &mut values, 0);
    one.join().unwrap();
    other.join().unwrap();
    world.read(&mut reader, &mut values, 100);
    world.read(&mut reader, &mut values, 200);
    let finished = world.counters.finished.load(Ordering::Relaxed);
    assert_eq!(finished, world.counters.reserved.load(Ordering::Relaxed));
    values.sort_unstable();
    values
}

/// A reader waits for what is being written as long as the writers are not half a circle ahead.
#[test]
fn where_nothing_is_overwritten_nothing_is_missed() {
    check(1, || assert_eq!(write_and_read(1, 8), [10, 20]));
}

/// A writer that was stopped for a lap spoils what another has written since: all may be missed, but nothing is wrong.
#[test]
fn a_reader_gets_whole_entries_while_they_are_overwritten() {
    check(1, || {
        let values = write_and_read(2, 2);
        assert!(values.iter().all(|it| [10, 20, 21].contains(it)));
    });
}

/// As `ulsock capture` ends: it says that it is off, and then sees whether somebody is still there.
#[test]
fn nobody_writes_what_was_given_back() {
    check(3, || {
        let world = World::new(2);
        let writer = spawn(&world, |world| world.put(1));
        world.is_on.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let finished = world.counters.finished.load(Ordering::SeqCst);
        if finished == world.counters.reserved.load(Ordering::SeqCst) {
            world.is_given_back.store(true, Ordering::SeqCst);
        }
        writer.join().unwrap();
    });
}
