//! Tripwires on memory that others write: no write is missed by who has armed a wire and looked, and no sleeper is forgotten.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use netstack::watch::{Armed, Blocks, Mail, Sleep};

use super::check;

/// In the place of an eventfd.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

struct Region {
    bytes: [AtomicU32; 2],
    armed: Armed,
    mails: [Mail; 2],
    sleep: Sleep,
    bell: Bell,
}

const BLOCKS: u64 = 64;

impl Region {
    fn new() -> Arc<Region> {
        Arc::new(Region {
            bytes: Default::default(),
            armed: Armed::new(),
            mails: Default::default(),
            sleep: Sleep::new(),
            bell: Bell {
                rung: Mutex::new(false),
                changed: Condvar::new(),
            },
        })
    }

    /// A writer that has this mail.
    fn write(&self, mail: usize, at: usize, value: u32) {
        self.bytes[at].store(value, Ordering::Relaxed);
        let mut was_empty = false;
        let written = at as u64 * BLOCKS..at as u64 * BLOCKS + 4;
        self.armed
            .look(Blocks::new(2 * BLOCKS), written, |group, wires| {
                was_empty |= self.mails[mail].note(group, wires);
            });
        if was_empty && self.sleep.wants_bell() {
            *self.bell.rung.lock().unwrap() = true;
            self.bell.changed.notify_one();
        }
    }

    fn arm(&self, wire: usize, at: usize) {
        let watched = at as u64 * BLOCKS..at as u64 * BLOCKS + 4;
        self.armed.arm(Blocks::new(2 * BLOCKS), wire, watched);
    }

    fn take(&self, mut tell: impl FnMut(usize)) -> bool {
        let mut any = false;
        for mail in &self.mails {
            mail.take(|wire| {
                any = true;
                tell(wire);
            });
        }
        any
    }

    /// Sleeps until something is in a mail.
    fn wait(&self, mut tell: impl FnMut(usize)) {
        while !self.take(&mut tell) {
            self.sleep.begin();
            if !self.take(&mut tell) {
                let mut rung = self.bell.rung.lock().unwrap();
                while !*rung {
                    rung = self.bell.changed.wait(rung).unwrap();
                }
                *rung = false;
            } else {
                self.sleep.end();
                return;
            }
            self.sleep.end();
        }
    }
}

#[test]
fn who_arms_and_looks_misses_no_write() {
    check(3, || {
        let region = Region::new();
        let writer = region.clone();
        let writer = thread::spawn(move || writer.write(0, 0, 1));
        region.arm(0, 0);
        if region.bytes[0].load(Ordering::Relaxed) == 0 {
            region.wait(|wire| assert_eq!(wire, 0));
            assert_eq!(region.bytes[0].load(Ordering::Relaxed), 1);
        }
        writer.join().unwrap();
    });
}

/// The last event comes after the last write.
#[test]
fn events_that_are_one_lose_no_write() {
    check(3, || {
        let region = Region::new();
        region.arm(1, 1);
        let writer = region.clone();
        let writer = thread::spawn(move || {
            writer.write(0, 1, 1);
            writer.write(0, 1, 2);
        });
        while region.bytes[1].load(Ordering::Relaxed) < 2 {
            region.wait(|wire| assert_eq!(wire, 1));
        }
        writer.join().unwrap();
    });
}

/// An event stands for what was noted until it is taken, and then forgotten: that can be seen.
#[test]
fn what_is_forgotten_was_seen() {
    check(3, || {
        let region = Region::new();
        region.arm(1, 1);
        let writer = region.clone();
        let writer = thread::spawn(move || {
            writer.write(0, 1, 1);
            writer.write(0, 1, 2);
        });
        while region.bytes[1].load(Ordering::Relaxed) < 2 {
            region.wait(|wire| assert_eq!(wire, 1));
            region.mails[0].forget(1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn each_of_two_writers_is_heard() {
    check(2, || {
        let region = Region::new();
        region.arm(0, 0);
        region.arm(3, 1);
        let writers = [0, 1].map(|number| {
            let region = region.clone();
            thread::spawn(move || region.write(number, number, 1))
        });
        let mut seen = [false; 4];
        while !(seen[0] && seen[3]) {
            region.wait(|wire| seen[wire] = true);
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
}
