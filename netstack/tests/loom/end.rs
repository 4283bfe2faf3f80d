//! [F13] An engine says that the stream has ended, while a reader goes to sleep: it is rung, or sees the hint.

use loom::sync::Arc;
use loom::thread;
use netstack::ring::sync::Ordering;
use netstack::ring::{Shared, Tail, tail};

use super::check;

const SLOT: usize = 3;

fn ends(last: u64) {
    let shared = Arc::new(Shared::new());
    tail::begin(&shared.producer.tail, 0);
    let engine = {
        let shared = shared.clone();
        thread::spawn(move || {
            tail::publish(&shared.producer.tail, last, true).unwrap();
            shared.hint_end()
        })
    };
    // As a library that polls: it looks for the next byte, or the hint.
    shared.wait.data.arm(SLOT, 7, 1);
    let hinted = shared.producer.closed.load(Ordering::Relaxed) != 0;
    if hinted {
        // What it finds then is the truth.
        loom::sync::atomic::fence(Ordering::Acquire);
        let tail = Tail::read(&shared.producer.tail);
        assert!(tail.has_ended() && tail.offset() == last);
    }
    let rung = engine.join().unwrap() & 1 << SLOT != 0;
    assert!(rung || hinted, "nobody wakes it");
}

#[test]
fn of_a_stream_with_nothing_more() {
    check(3, || ends(0));
}

#[test]
fn with_the_last_byte() {
    check(3, || ends(1));
}
