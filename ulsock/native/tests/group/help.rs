//! What the tests of groups share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ulsock_native::group::{Event, Group, Member, Options};

use super::hosts::{join_on, prepare};

/// Nobody waits longer for what is to come.
const LONG: Duration = Duration::from_secs(20);

/// A name that no other test has.
pub fn service() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    prepare();
    format!("group.{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

pub fn join(service: &str) -> Group {
    join_with(service, Options::default())
}

pub fn join_with(service: &str, options: Options) -> Group {
    join_on(0, service, options)
}

pub fn small(ring: usize) -> Options {
    Options {
        ring,
        ..Options::default()
    }
}

/// Members that all know each other.
pub fn members(service: &str, count: usize, options: Options) -> Vec<Group> {
    members_on(&vec![0; count], service, options)
}

/// The same on two hosts: which of them each is on.
pub fn members_on(hosts: &[usize], service: &str, options: Options) -> Vec<Group> {
    let joined = hosts.iter().map(|host| join_on(*host, service, options));
    let mut all: Vec<Group> = joined.collect();
    for group in &mut all {
        await_members(group, hosts.len() - 1);
    }
    all
}

/// Takes the next event.
pub fn next(group: &mut Group, room: &mut [u8]) -> Event {
    let event = group.recv_within(LONG, room).expect("an event");
    event.expect("an event in time")
}

/// So many others join.
pub fn await_members(group: &mut Group, count: usize) -> Vec<Member> {
    let joined = |group: &mut Group| match next(group, &mut []) {
        Event::Joined(member) => member,
        other => panic!("{other:?}"),
    };
    (0..count).map(|_| joined(group)).collect()
}

/// The next message, and whose it is.
pub fn message(group: &mut Group) -> (u32, Vec<u8>) {
    let mut room = vec![0; 1 << 20];
    match next(group, &mut room) {
        Event::Message { from, len } => {
            room.truncate(len);
            (from.number, room)
        }
        other => panic!("{other:?}"),
    }
}
