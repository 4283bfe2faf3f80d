//! A ring with one writer and several readers: everybody gets everything in order, who sleeps is woken for data and for room,
//! and nothing is overwritten that somebody still reads.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use netstack::broadcast::{Cursor, Head, Known, Reading, Rung, Sleeper};

use super::check;

/// One position is one place, which holds its position: a race on it is a failure.
struct Ring<const SIZE: usize, const READERS: usize> {
    head: Head,
    places: [UnsafeCell<u64>; SIZE],
    cursors: [Cursor; READERS],
    rests: [Sleeper; READERS],
    bells: [Notify; READERS],
    writer_bell: Notify,
}

impl<const SIZE: usize, const READERS: usize> Ring<SIZE, READERS> {
    fn new() -> Self {
        Ring {
            head: Head::new(0),
            places: std::array::from_fn(|_| UnsafeCell::new(u64::MAX)),
            cursors: std::array::from_fn(|_| Cursor::new(0)),
            rests: std::array::from_fn(|_| Sleeper::new()),
            bells: std::array::from_fn(|_| Notify::new()),
            writer_bell: Notify::new(),
        }
    }

    fn has_room(&self, known: &mut [Known; READERS], tail: u64) -> bool {
        known.iter_mut().zip(&self.cursors).all(|(known, cursor)| {
            let at = known.look(cursor, tail).expect("honest");
            tail - at < SIZE as u64
        })
    }

    fn write(&self, messages: u64) {
        let mut known = [Known::new(0); READERS];
        let mut rung = [Rung::default(); READERS];
        for tail in 0..messages {
            while !self.has_room(&mut known, tail) {
                self.head.room.lie_down(tail + 1 - SIZE as u64);
                if !self.has_room(&mut known, tail) {
                    self.writer_bell.wait();
                }
                self.head.room.get_up();
            }
            self.places[tail as usize % SIZE].with_mut(|place| unsafe { *place = tail });
            self.head.publish(tail + 1);
            for reader in 0..READERS {
                if self.rests[reader].must_be_rung(&mut rung[reader], tail + 1) {
                    self.bells[reader].notify();
                }
            }
        }
    }

    fn read(&self, me: usize, messages: u64) {
        let mut reading = Reading::new(0);
        while reading.at() < messages {
            let look = |reading: &mut Reading| reading.look(&self.head, SIZE as u64);
            while look(&mut reading) == Ok(0) {
                self.rests[me].lie_down(0);
                if look(&mut reading) == Ok(0) {
                    self.bells[me].wait();
                }
                self.rests[me].get_up();
            }
            while reading.left() > 0 {
                let place = &self.places[reading.at() as usize % SIZE];
                assert_eq!(place.with(|place| unsafe { *place }), reading.at());
                reading.take(1);
            }
            if reading.publish(&self.cursors[me], &self.head) {
                self.writer_bell.notify();
            }
        }
    }
}

fn all_read<const SIZE: usize, const READERS: usize>(messages: u64) {
    let ring = Arc::new(Ring::<SIZE, READERS>::new());
    let readers: Vec<_> = (0..READERS)
        .map(|me| {
            let ring = ring.clone();
            thread::spawn(move || ring.read(me, messages))
        })
        .collect();
    ring.write(messages);
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn one_reader_and_a_full_ring() {
    check(3, || all_read::<1, 1>(3));
}

#[test]
fn two_readers_and_a_full_ring() {
    check(2, || all_read::<1, 2>(2));
}

#[test]
fn two_readers_and_some_room() {
    check(1, || all_read::<2, 2>(3));
}
