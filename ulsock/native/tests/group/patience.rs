//! How long a sender waits, and for whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use ulsock_native::group::{Event, Group, Options};

use super::help::{members, message, next, service, small};

fn impatient(ring: usize) -> Options {
    Options {
        patience: Some(Duration::from_millis(300)),
        ..small(ring)
    }
}

/// A sender waits for the slowest, but not longer than it has patience; then the others go on.
#[test]
fn who_takes_nothing_is_put_out() {
    let mut all = members(&service(), 3, impatient(4096));
    let numbers: Vec<u32> = all.iter().map(Group::number).collect();
    for count in 0..4 {
        all[0].send(&[count; 1000]).expect("sent");
        assert_eq!(message(&mut all[1]), (numbers[0], vec![count; 1000]));
    }
    let full = all[0].sender().try_send(&[4; 1000]).expect("no error");
    assert!(!full, "one has taken nothing");
    all[0].send(&[4; 1000]).expect("sent");
    assert_eq!(message(&mut all[1]), (numbers[0], vec![4; 1000]));
    match next(&mut all[0], &mut []) {
        Event::Failed(member) => assert_eq!(member.number, numbers[2]),
        other => panic!("{other:?}"),
    }
    assert_eq!(all[0].members().len(), 1);
    // It hears of it, too; what it has missed is overwritten.
    match next(&mut all[2], &mut [0; 1000]) {
        Event::Failed(member) => assert_eq!(member.number, numbers[0]),
        other => panic!("{other:?}"),
    }
}

/// Who has made room is not put out with who has not.
#[test]
fn who_takes_little_stays() {
    let mut all = members(&service(), 3, impatient(4096));
    for count in 0..4 {
        all[0].send(&[count; 1000]).expect("sent");
    }
    assert_eq!(message(&mut all[1]).1, [0; 1000]);
    all[0].send(&[4; 1000]).expect("sent");
    match next(&mut all[0], &mut []) {
        Event::Failed(member) => assert_eq!(member.number, all[2].number()),
        other => panic!("{other:?}"),
    }
    for count in 1..5 {
        assert_eq!(message(&mut all[1]).1, [count; 1000]);
    }
    assert_eq!(all[0].members().len(), 1);
}

/// Patience is for who takes nothing. Who takes one after the other is waited for as long as that takes.
#[test]
fn who_takes_slowly_stays() {
    let mut all = members(&service(), 2, impatient(64 << 10));
    let mut slow = all.pop().expect("two");
    let mut sender = all.pop().expect("two");
    for count in 0..30 {
        sender.send(&[count; 1000]).expect("sent");
    }
    let taken = Arc::new(AtomicU8::new(0));
    let told = taken.clone();
    let takes = thread::spawn(move || {
        for count in 0..30 {
            told.store(count, Ordering::SeqCst);
            assert_eq!(message(&mut slow).1, [count; 1000]);
            thread::sleep(Duration::from_millis(50));
        }
        slow
    });
    sender.sender().flush().expect("all is taken");
    assert_eq!(
        taken.load(Ordering::SeqCst),
        29,
        "only the last was waited for"
    );
    assert_eq!(sender.members().len(), 1);
    takes.join().expect("all has come");
}

/// A sender that has slept until half of the ring is free would sleep for ever if the others wait for this message.
#[test]
fn room_for_one_message_is_enough() {
    let options = Options {
        patience: None,
        ..small(4096)
    };
    let mut all = members(&service(), 2, options);
    let mut receiver = all.pop().expect("two");
    let (mut sender, _others) = all.pop().expect("two").split();
    for count in 0..4 {
        sender.send(&[count; 1000]).expect("sent");
    }
    let sends = thread::spawn(move || sender.send(&[4; 1000]));
    thread::sleep(Duration::from_millis(100));
    assert!(!sends.is_finished(), "it is full");
    assert_eq!(message(&mut receiver).1, [0; 1000]);
    thread::sleep(Duration::from_millis(300));
    assert!(sends.is_finished(), "there is room");
    for count in 1..5 {
        assert_eq!(message(&mut receiver).1, [count; 1000]);
    }
    sends.join().expect("no panic").expect("sent");
}
