//! What cannot be done, and how memberships end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ulsock_native::group::{Event, Group, GroupError, Member, Options, Receiver};
use ulsock_native::names::{NameError, Names};

use super::help::{join, join_with, members, message, next, service, small};

#[test]
fn who_leaves_is_told_of_after_its_messages() {
    let mut all = members(&service(), 3, Options::default());
    let mut leaver = all.pop().expect("three");
    let number = leaver.number();
    leaver.send(b"the last").expect("sent");
    drop(leaver);
    for group in &mut all {
        assert_eq!(message(group), (number, b"the last".to_vec()));
        match next(group, &mut []) {
            Event::Left(member) => assert_eq!(member.number, number),
            other => panic!("{other:?}"),
        }
        assert_eq!(group.members().len(), 1);
    }
}

#[test]
fn too_long_and_too_little_room() {
    let mut all = members(&service(), 2, small(4096));
    let long = vec![7; 1025];
    match all[0].send(&long) {
        Err(GroupError::TooLong { most: 1024 }) => {}
        other => panic!("{other:?}"),
    }
    all[0].send(&long[1..]).expect("sent");
    match all[1].recv(&mut [0; 1023]) {
        Err(GroupError::NoRoom { needed: 1024 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(message(&mut all[1]).1, long[1..]);
}

#[test]
fn wrong_names_and_sizes() {
    let names = Names::open();
    let service = service();
    let names = names.or_else(|_| Names::open()).expect("names");
    let join = |service: &str, options| Group::join(&names, service, options).map(drop);
    match join("-", Options::default()) {
        Err(GroupError::Name(NameError::BadName)) => {}
        other => panic!("{other:?}"),
    }
    for ring in [0, 5000, 1 << 40] {
        assert!(matches!(
            join(&service, small(ring)),
            Err(GroupError::BadRing)
        ));
    }
}

#[test]
fn alone() {
    let mut group = join(&service());
    for _ in 0..100 {
        group.send(&[1; 100_000]).expect("sent");
    }
    let nothing = group.recv_within(Duration::from_millis(10), &mut []);
    assert_eq!(nothing.expect("no error"), None);
    group.leave().expect("nobody to wait for");
}

/// Members come and go, also before they have met the others: nobody of them has failed.
#[test]
fn who_leaves_at_any_moment_has_left() {
    let service = service();
    let lasting = members(&service, 3, small(4096));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut sees = Vec::new();
        for group in lasting {
            let (mut sender, mut receiver) = group.split();
            let is_over = &is_over;
            sees.push(scope.spawn(move || see(&mut receiver, is_over)));
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    sender.send(&[1; 100]).expect("sent");
                    thread::sleep(Duration::from_micros(50));
                }
            });
        }
        for round in 0..200_u64 {
            let mut group = join_with(&service, small(4096));
            for _ in 0..round % 5 {
                let event = group.recv_within(Duration::from_millis(2), &mut [0; 100]);
                event.expect("no error");
            }
            group.send(b"bye").expect("sent");
        }
        is_over.store(true, Ordering::Relaxed);
        for sees in sees {
            assert_eq!(sees.join().expect("no panic"), None);
        }
    });
}

/// Who fails.
fn see(receiver: &mut Receiver, is_over: &AtomicBool) -> Option<Member> {
    let (mut there, mut failed) = (2, None);
    while !(is_over.load(Ordering::Relaxed) && there <= 2) {
        let event = receiver.recv_within(Duration::from_millis(20), &mut [0; 100]);
        match event.expect("no error") {
            Some(Event::Joined(_)) => there += 1,
            Some(Event::Left(_)) => there -= 1,
            Some(Event::Failed(member)) => {
                there -= 1;
                failed = Some(member);
            }
            Some(Event::Message { .. }) | None => {}
        }
    }
    failed
}
