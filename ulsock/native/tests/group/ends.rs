//! What cannot be done, and how memberships end.

use std::time::Duration;

use ulsock_native::group::{Event, Group, GroupError, Options};
use ulsock_native::names::{NameError, Names};

use super::help::{join, members, message, next, service, small};

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
