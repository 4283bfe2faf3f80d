use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

use super::word::{Entrance, Word};
use super::*;

fn alive(word: &Word) -> u32 {
    word.begin(word.idle().expect("idle")).expect("a life")
}

#[test]
fn no_life_begins_while_somebody_is_inside() {
    let word = Word::new();
    let life = alive(&word);
    assert_eq!(word.enter(life, Way::In), Entrance::In);
    assert!(word.idle().is_none());
    assert_eq!(word.leave(Way::In), None);
    let last = word.idle().expect("idle");
    assert_eq!(word.enter(life, Way::Out), Entrance::In);
    assert_eq!(word.begin(last), None, "somebody came meanwhile");
    word.leave(Way::Out);
    assert_ne!(alive(&word), life);
}

#[test]
fn another_life_is_not_entered() {
    let word = Word::new();
    let first = alive(&word);
    let second = alive(&word);
    let stale = Entrance::Stale { grown: false };
    assert_eq!(word.enter(first, Way::In), stale);
    assert_eq!(word.leave(Way::In), None);
    assert_eq!(word.enter(second, Way::In), Entrance::In);
}

/// Who comes with an old life leaves a gate only if it was entered for him.
#[test]
fn a_stale_call_leaves_no_gate_of_others() {
    let word = Word::new();
    let (first, second) = (alive(&word), alive(&word));
    let before = word.enter(first, Way::In);
    assert!(!before.found_record(), "a record that comes now counts it");
    let mut inside = [0, 0];
    assert!(word.publish(7, |now| inside = now));
    assert_eq!(inside, [0, 1]);
    assert_eq!(word.leave(Way::In), Some(7));
    let after = word.enter(first, Way::In);
    assert_eq!(after, Entrance::Stale { grown: true });
    assert!(after.found_record() && word.enter(second, Way::In).found_record());
}

#[test]
fn lives_begin_anew_after_the_last() {
    let word = Word::new();
    let lives: Vec<u32> = (0..40_000).map(|_| alive(&word)).collect();
    assert_eq!(lives[0], lives[1 << 15]);
    assert_eq!(word.enter(lives[39_999], Way::Out), Entrance::In);
}

#[test]
fn a_record_is_published_once_with_those_who_are_inside() {
    let word = Word::new();
    let life = alive(&word);
    for way in [Way::In, Way::In, Way::Out] {
        assert_eq!(word.enter(life, way), Entrance::In);
    }
    let mut inside = [0, 0];
    assert!(word.publish(65_535, |now| inside = now));
    assert_eq!(inside, [1, 2], "to send, to receive");
    assert!(!word.publish(7, |_| panic!("it has one")));
    assert!(word.has_inside(65_535, Way::Out) && !word.has_inside(7, Way::Out));
    assert_eq!(word.enter(life, Way::In), Entrance::Grown(65_535));
    assert_eq!(word.leave(Way::In), Some(65_535));
    for way in [Way::In, Way::In, Way::Out] {
        assert_eq!(word.leave(way), Some(65_535));
    }
    assert!(word.idle().is_some());
    alive(&word);
    assert_eq!(word.record(), None);
}

#[test]
fn too_many_are_turned_away() {
    let word = Word::new();
    let life = alive(&word);
    for _ in 0..0x7fff {
        assert_eq!(word.enter(life, Way::In), Entrance::In);
    }
    assert_eq!(word.enter(life, Way::In), Entrance::Full);
    assert_eq!(word.enter(life, Way::Out), Entrance::In);
}

/// Threads come and go while others publish: whoever was inside then, and nobody else, leaves the gate.
#[test]
fn the_gates_come_out_even() {
    for _ in 0..200 {
        let (word, gate, start) = (Word::new(), AtomicU32::new(0), Barrier::new(4));
        let life = alive(&word);
        let call = || {
            start.wait();
            for _ in 0..50 {
                let knew = word.enter(life, Way::In).found_record();
                if word.leave(Way::In).is_some() && !knew {
                    gate.fetch_sub(1, Ordering::SeqCst);
                }
            }
        };
        let publish = |number: u32| {
            start.wait();
            let mut entered = 0;
            let won = word.publish(number, |[_, inside]| {
                gate.fetch_add(inside.wrapping_sub(entered), Ordering::SeqCst);
                entered = inside;
            });
            if !won {
                gate.fetch_sub(entered, Ordering::SeqCst);
            }
            won
        };
        let winners = thread::scope(|scope| {
            let publishers = [1, 2].map(|number| scope.spawn(move || publish(number)));
            let callers = [scope.spawn(call), scope.spawn(call)];
            for caller in callers {
                caller.join().expect("a caller");
            }
            publishers.map(|publisher| publisher.join().expect("a publisher"))
        });
        assert_eq!(winners.iter().filter(|won| **won).count(), 1);
        assert_eq!(gate.load(Ordering::SeqCst), 0);
    }
}
