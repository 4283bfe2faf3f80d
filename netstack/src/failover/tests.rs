//! Single decisions; whole stories are in firmware's tests.

use core::cell::Cell;

use super::record::LENGTH;
use super::*;
use crate::ring::sync::AtomicU64;
use crate::ring::{Tail, tail};

const KEY: u64 = 0xfeed;
/// Where the promotions of these tests begin: we have written and read so much.
const WRITTEN: u64 = 100;
const READ: u64 = 50;

struct Words {
    word: AtomicU64,
    freed: Cell<u64>,
    filled: Cell<u64>,
}

impl Words {
    fn new() -> Words {
        let words = Words {
            word: AtomicU64::new(0),
            freed: Cell::new(WRITTEN),
            filled: Cell::new(WRITTEN),
        };
        tail::begin(&words.word, READ);
        words
    }
}

impl Segment for Words {
    fn tail(&self) -> Tail {
        Tail::read(&self.word)
    }

    fn freeze(&self) -> Tail {
        tail::freeze(&self.word)
    }

    fn freed(&self) -> u64 {
        self.freed.get()
    }

    fn filled(&self) -> u64 {
        self.filled.get()
    }
}

/// A side that has proposed, or agreed to, its first promotion.
fn joining(role: Role) -> (Side, Words) {
    let mut side = Side::new(role, READ);
    match role {
        Role::Connected => drop(side.propose(KEY, WRITTEN, READ)),
        Role::Accepted => assert!(side.agree(&prepare(1), WRITTEN, READ)),
    }
    (side, Words::new())
}

fn prepare(epoch: u64) -> Prepare {
    Prepare {
        epoch,
        key: KEY,
        sent: READ,
        received: WRITTEN,
    }
}

/// A side whose word says OPEN; the program has written 20 bytes, of which 5 are acknowledged, and has 7
/// bytes in its ring.
fn linked(role: Role) -> (Side, Words) {
    let (mut side, words) = joining(role);
    tail::open(&words.word).expect("not frozen");
    side.see(words.tail());
    assert_eq!(side.stage(), Stage::Linked);
    tail::publish(&words.word, READ + 7, false).expect("not frozen");
    words.filled.set(WRITTEN + 20);
    words.freed.set(WRITTEN + 5);
    (side, words)
}

fn resume(epoch: u64, received: u64, from: u64, written: u64) -> [u8; LENGTH] {
    let record = Resume {
        key: KEY,
        epoch,
        received,
        from,
        written,
    };
    record.to_bytes()
}

/// `[F16]` `[F19]` The side that has heard first sends no byte that the peer has, and skips what the ring has.
#[test]
fn answers_a_resume_with_what_is_missing() {
    let (mut side, words) = linked(Role::Accepted);
    let heard = side.look(&resume(1, WRITTEN + 12, READ + 4, READ + 30), &words);
    assert_eq!(heard, Ok(Arrived::Record));
    assert_eq!(side.stage(), Stage::Frozen);
    assert!(words.tail().is_frozen());
    let answer = side.resume(words.tail(), words.freed(), words.filled());
    assert_eq!((answer.received, answer.from), (READ + 7, WRITTEN + 12));
    assert_eq!(side.look(b"x", &words), Ok(Arrived::Plain { skip: 3 }));
}

/// `[F16]` The side that has not heard begins with what is not acknowledged.
#[test]
fn resumes_from_what_is_not_acknowledged() {
    let (mut side, words) = linked(Role::Connected);
    words.freeze();
    side.freeze();
    let record = side.resume(words.tail(), words.freed(), words.filled());
    assert_eq!((record.from, record.written), (WRITTEN + 5, WRITTEN + 20));
    side.resent();
    assert_eq!(side.stage(), Stage::Kernel);
}

/// `[F19]`
#[test]
fn impossible_records_are_nonsense() {
    let (freed, filled, have) = (WRITTEN + 5, WRITTEN + 20, READ + 7);
    for (received, from, written) in [
        (freed - 1, have, have),
        (filled + 1, have, have),
        (freed, have + 1, have + 9),
        (freed, have - 2, have - 1),
    ] {
        let (mut side, words) = linked(Role::Accepted);
        let record = resume(1, received, from, written);
        assert_eq!(side.look(&record, &words), Err(Nonsense));
    }
}

/// `[F17]` Where only a record can be, its beginning is waited for, and anything else is nonsense.
#[test]
fn nothing_but_a_record_follows_a_promotion() {
    let (mut side, words) = linked(Role::Connected);
    let record = resume(1, WRITTEN + 5, READ + 7, READ + 7);
    assert_eq!(side.look(&record[..39], &words), Ok(Arrived::Part));
    assert_eq!(side.look(&[7; 40], &words), Err(Nonsense));
    // Of a promotion that there has not been.
    let (mut side, words) = linked(Role::Connected);
    let record = resume(2, WRITTEN + 5, READ + 7, READ + 7);
    assert_eq!(side.look(&record, &words), Err(Nonsense));
}

/// `[F17]` `[F18]` B resumes a promotion that A gave up; A has proposed the next one meanwhile.
#[test]
fn a_record_of_an_earlier_promotion_is_thrown_away() {
    let (mut side, words) = joining(Role::Connected);
    assert!(side.give_up(words.freeze()));
    assert_eq!(side.propose(1, WRITTEN, READ).key, KEY);
    let (words, stale) = (Words::new(), resume(1, WRITTEN, READ, READ));
    assert_eq!(side.look(&stale, &words), Ok(Arrived::Record));
    assert_eq!(side.stage(), Stage::Joining);
    assert!(side.give_up(words.freeze()));
    assert_eq!(side.look(&stale, &words), Ok(Arrived::Record));
    assert_eq!(side.answer(words.tail(), WRITTEN), None);
}

/// `[F18]` A has given up and said nothing since: it answers, once.
#[test]
fn who_gave_up_answers_a_resume() {
    let (mut side, words) = joining(Role::Connected);
    assert!(side.give_up(words.freeze()));
    let record = resume(1, WRITTEN, READ, READ);
    assert_eq!(side.look(&record, &words), Ok(Arrived::Record));
    let answer = side.answer(words.tail(), WRITTEN).expect("an answer");
    assert_eq!((answer.received, answer.from), (READ, WRITTEN));
    assert_eq!(side.answer(words.tail(), WRITTEN), None);
    // What looks like a record is the program's now.
    assert_eq!(side.look(&record, &words), Ok(Arrived::Plain { skip: 0 }));
}

/// `[F8]` What A proposed has been bound before it gave up.
#[test]
fn too_late_to_give_up() {
    let (mut side, words) = joining(Role::Connected);
    tail::open(&words.word).expect("not frozen");
    assert!(!side.give_up(words.freeze()));
    assert_eq!(side.stage(), Stage::Linked);
}

/// `[F3]`
#[test]
fn agrees_only_where_both_stand_the_same() {
    for (wrong, written, read) in [
        (prepare(1), WRITTEN + 1, READ),
        (prepare(1), WRITTEN, READ - 1),
        (prepare(0), WRITTEN, READ),
    ] {
        let mut side = Side::new(Role::Accepted, read);
        assert!(!side.agree(&wrong, written, read));
    }
    let mut proposer = Side::new(Role::Connected, READ);
    assert!(!proposer.agree(&prepare(1), WRITTEN, READ));
}

/// `[F20]` `[F22]` FIN before what was promised is no end.
#[test]
fn fin_ends_what_was_promised_and_nothing_less() {
    for (read, verdict) in [(12, Tip::Broken), (13, Tip::Fin)] {
        let (mut side, words) = linked(Role::Accepted);
        let record = resume(1, WRITTEN + 5, READ + 7, READ + 7 + 13);
        assert_eq!(side.look(&record, &words), Ok(Arrived::Record));
        side.resume(words.tail(), words.freed(), words.filled());
        side.took(read);
        let end = side.end(Tip::Fin, Some(words.tail()), READ + 7 + read);
        assert_eq!(end, Some(verdict));
    }
}

/// `[F22]` `[F23]` FIN without RESUME: on the link it only asks, after a fail-over it is an error.
#[test]
fn fin_without_a_resume_is_no_end() {
    let (mut side, words) = linked(Role::Connected);
    let read = READ + 7;
    assert_eq!(side.end(Tip::Fin, Some(words.tail()), read), None);
    assert_eq!(side.stage(), Stage::Linked);
    words.freeze();
    side.freeze();
    side.resume(words.tail(), words.freed(), words.filled());
    // The ring is read first.
    assert_eq!(side.end(Tip::Fin, Some(words.tail()), read - 1), None);
    assert_eq!(side.stage(), Stage::Over);
    let end = side.end(Tip::Fin, Some(words.tail()), read);
    assert_eq!(end, Some(Tip::Broken));
}
