//! What is asked of a record from outside, while its connection takes it, or ends and another one uses the record.

use loom::sync::{Arc, Mutex};
use loom::thread;
use netstack::ring::OrderWord;
use netstack::ring::sync::{AtomicU32, Ordering};

use super::check;

const ORDERED: u32 = 1;

/// As a socket record, with what its connection has made of what was asked.
struct Record {
    flags: AtomicU32,
    generation: AtomicU32,
    word: OrderWord,
    done: Mutex<Option<u32>>,
}

impl Record {
    fn new() -> Arc<Record> {
        Arc::new(Record {
            flags: AtomicU32::new(0),
            generation: AtomicU32::new(1),
            word: OrderWord::new(),
            done: Mutex::new(None),
        })
    }

    fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    fn ask(&self, generation: u32, what: u32) -> bool {
        let asked = self.word.ask(generation, what, || self.generation());
        if asked {
            self.flags.fetch_or(ORDERED, Ordering::AcqRel);
        }
        asked
    }

    /// A call of the connection's: the word is read under the lock under which it is done.
    fn take(&self) {
        if self.flags.load(Ordering::Relaxed) & ORDERED == 0 {
            return;
        }
        self.flags.fetch_and(!ORDERED, Ordering::AcqRel);
        let mut done = self.done.lock().unwrap();
        *done = self.word.asked(self.generation());
    }

    /// The connection has ended, and the record serves another.
    fn reset(&self) {
        // A store there. Loom does not order a store and an exchange that read before it, and would lose the flag.
        self.flags.swap(0, Ordering::Relaxed);
        *self.done.lock().unwrap() = None;
        self.generation.store(2, Ordering::Release);
    }
}

/// Two threads take what two have asked one after the other: what is asked last is done last.
#[test]
fn the_last_order_is_done() {
    check(3, || {
        let record = Record::new();
        let takers = [(); 2].map(|()| {
            let record = record.clone();
            thread::spawn(move || record.take())
        });
        assert!(record.ask(1, 5) && record.ask(1, 6));
        takers.into_iter().for_each(|it| it.join().unwrap());
        record.take();
        assert_eq!(*record.done.lock().unwrap(), Some(6));
    });
}

/// One asks the old connection, one the new one, while the record changes hands: the new one never does what was asked of
/// the old one, and what was asked of it is not lost.
#[test]
fn a_record_changes_hands() {
    check(3, || {
        let record = Record::new();
        let old = {
            let record = record.clone();
            thread::spawn(move || record.ask(1, 5))
        };
        let new = {
            let record = record.clone();
            thread::spawn(move || {
                let generation = record.generation();
                generation == 2 && record.ask(2, 6)
            })
        };
        record.take();
        record.reset();
        record.take();
        old.join().unwrap();
        let asked = new.join().unwrap();
        record.take();
        assert_eq!(*record.done.lock().unwrap(), asked.then_some(6));
    });
}
