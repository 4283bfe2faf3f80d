//! What a poll for a caller that waits for bytes does at once, and what it leaves to the next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firmware::{EndpointId, Segment as _};
use netstack::phy::Conditions;
use netstack::ring::tail::Tail;
use netstack::time::Instant;

use crate::host::Host;
use crate::world::{FROM_A, FROM_B, World};

const MESSAGE: u64 = 64;
/// Longer than any frame takes.
const WAY: Duration = Duration::from_micros(6);

/// Two hosts with a connection and nothing to do.
fn at_rest() -> (World, EndpointId, EndpointId) {
    let conditions = Conditions {
        latency: Duration::from_micros(5),
        ..Conditions::default()
    };
    let mut world = World::new(&conditions, 1);
    let (a, b) = world.connect(1, 0);
    let end = world.now + Duration::from_millis(100);
    while world.now < end {
        world.a.run(world.now);
        world.b.run(world.now);
        world.now = world.now + WAY;
    }
    assert!(world.a.opened.contains(&a) && world.b.opened.contains(&b));
    (world, a, b)
}

fn write(world: &mut World, whose: impl Fn(&mut World) -> &mut Host, at: EndpointId, from: u64) {
    let now = world.now;
    let host = whose(world);
    let bytes = [7; MESSAGE as usize];
    let written = host.programs[&at].segment.write_sending(from, &bytes);
    assert_eq!(written, MESSAGE);
    host.engine.notice(at);
    host.glances = false;
    host.poll(now);
    world.now = world.now + WAY;
}

/// Polls as a waiting caller does; returns how many frames that has sent.
fn glance(host: &mut Host, now: Instant) -> u64 {
    let before = host.engine.counters().frames_sent;
    host.glances = true;
    host.poll(now);
    host.engine.counters().frames_sent - before
}

fn has_come(host: &Host, at: EndpointId) -> u64 {
    let segment = &host.programs[&at].segment;
    Tail::read(&segment.receiving().shared.producer.tail).offset()
}

#[test]
fn an_acknowledgement_rides_on_the_answer() {
    let (mut world, a, b) = at_rest();
    write(&mut world, |world| &mut world.a, a, FROM_A);
    let now = world.now;
    assert_eq!(glance(&mut world.b, now), 0, "it may wait");
    assert_eq!(has_come(&world.b, b), FROM_A + MESSAGE);
    assert_eq!(world.b.next(now), Some(now), "the rest has to follow");
    let before = world.b.engine.counters().frames_sent;
    write(&mut world, |world| &mut world.b, b, FROM_B);
    assert_eq!(world.b.engine.counters().frames_sent, before + 1);
    let now = world.now;
    world.a.poll(now);
    assert_eq!(has_come(&world.a, a), FROM_B + MESSAGE);
    let sending = &world.a.programs[&a].segment;
    let freed = sending
        .sending()
        .shared
        .consumer
        .head
        .load(Ordering::Acquire);
    assert_eq!(freed, FROM_A + MESSAGE, "acknowledged by the answer");
}

#[test]
fn several_that_came_in_order_wait_for_the_answer_too() {
    let (mut world, a, b) = at_rest();
    // [P4] The second one is to be acknowledged at once, unless an answer can do it.
    write(&mut world, |world| &mut world.a, a, FROM_A);
    write(&mut world, |world| &mut world.a, a, FROM_A + MESSAGE);
    let now = world.now;
    assert_eq!(glance(&mut world.b, now), 0);
    assert_eq!(has_come(&world.b, b), FROM_A + 2 * MESSAGE);
    assert_eq!(world.b.next(now), Some(now), "the rest has to follow");
    let before = world.b.engine.counters().frames_sent;
    write(&mut world, |world| &mut world.b, b, FROM_B);
    assert_eq!(world.b.engine.counters().frames_sent, before + 1);
}

#[test]
fn what_is_due_is_not_left() {
    let (mut world, a, _) = at_rest();
    write(&mut world, |world| &mut world.a, a, FROM_A);
    write(&mut world, |world| &mut world.a, a, FROM_A + MESSAGE);
    let now = world.now;
    assert_eq!(glance(&mut world.b, now), 0);
    // Nobody has answered; more comes.
    write(&mut world, |world| &mut world.a, a, FROM_A + 2 * MESSAGE);
    let now = world.now;
    assert_eq!(glance(&mut world.b, now), 1);
}
