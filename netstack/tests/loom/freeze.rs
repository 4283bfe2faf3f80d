//! [F5] [F11] An engine publishes while the library freezes the word: both agree on what is there.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use netstack::ring::sync::AtomicU64;
use netstack::ring::{Tail, tail};

use super::check;

#[test]
fn what_a_frozen_word_says_is_there() {
    check(3, || {
        let ring = Arc::new((AtomicU64::new(0), [UnsafeCell::new(0), UnsafeCell::new(0)]));
        tail::begin(&ring.0, 0);
        let engine = {
            let ring = ring.clone();
            thread::spawn(move || place_and_publish(&ring.0, &ring.1))
        };
        let frozen = tail::freeze(&ring.0);
        for (byte, place) in (1..).zip(&ring.1[..frozen.offset() as usize]) {
            // SAFETY: the pointer is valid for the byte of its cell; loom checks for races.
            assert_eq!(place.with(|at| unsafe { at.read() }), byte);
        }
        assert_eq!(engine.join().unwrap(), frozen.offset());
        assert_eq!(Tail::read(&ring.0), frozen);
    });
}

/// How many it may acknowledge.
fn place_and_publish(word: &AtomicU64, ring: &[UnsafeCell<u64>]) -> u64 {
    for (offset, place) in (1..).zip(ring) {
        // SAFETY: as above.
        place.with_mut(|at| unsafe { at.write(offset) });
        if tail::publish(word, offset, false).is_err() {
            return offset - 1;
        }
    }
    ring.len() as u64
}
