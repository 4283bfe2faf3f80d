//! What an event stands for: from the first write that touches a wire, until it is taken.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use ulsock_native::memory::{EventQueue, Exporter, Fires, WireId};

use super::{SIZE, get, import, put, until, world};

fn all(queue: &mut EventQueue) -> Vec<WireId> {
    let mut told = Vec::new();
    while let Some(event) = queue.try_next().expect("a queue") {
        told.push(event.wire);
    }
    told
}

#[test]
fn writes_of_several_importers_are_one_event() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Always).expect("a wire");
    let other = import(&world.region);
    put(&world.import, 0, &[1]);
    put(&other, 1, &[2]);
    assert_eq!(all(&mut world.queue), [wire.id()]);
    assert_eq!(get(&world.region, 0), [1, 2]);
}

/// Also while others are taken, which have come at the same time.
#[test]
fn writes_until_an_event_is_taken_are_of_it() {
    let mut world = world(SIZE);
    let wires = [0, 100, 200].map(|at| world.region.wire(at..at + 8, Fires::Always));
    let wires = wires.map(|wire| wire.expect("a wire"));
    put(&world.import, 0, &[1; 300]);
    let first = world.queue.try_next().expect("a queue").expect("an event");
    put(&world.import, 0, &[2; 300]);
    let mut told = all(&mut world.queue);
    told.sort();
    // That of the first was taken between the two.
    assert!(told.contains(&first.wire));
    assert_eq!(told, wires.map(|wire| wire.id()));
}

#[test]
fn a_wire_that_is_dropped_takes_its_events_along() {
    let mut world = world(SIZE);
    let wires = [0, 100, 200].map(|at| world.region.wire(at..at + 8, Fires::Always));
    let [first, second, third] = wires.map(|wire| wire.expect("a wire"));
    put(&world.import, 0, &[1; 300]);
    drop(first);
    let told = world.queue.try_next().expect("a queue").expect("an event");
    // Both events were there.
    let (left, dropped) = match told.wire == second.id() {
        true => (second, third),
        false => (third, second),
    };
    assert_eq!(told.wire, left.id());
    drop(dropped);
    assert_eq!(all(&mut world.queue), []);
}

/// Wires have places in a table, which are used again.
#[test]
fn a_wire_hears_nothing_of_the_one_before_it() {
    for fires in [Fires::Once, Fires::Always] {
        let mut world = world(SIZE);
        let before = world.region.wire(0..8, fires).expect("a wire");
        put(&world.import, 0, &[1]);
        drop(before);
        let wire = world.region.wire(100..108, fires).expect("a wire");
        assert_eq!(all(&mut world.queue), []);
        put(&world.import, 100, &[1]);
        assert_eq!(all(&mut world.queue), [wire.id()]);
    }
}

/// One that has waited for it gets the next, whoever waited for the last.
#[test]
fn a_sleeper_hears_of_a_wire_in_the_place_of_another() {
    let mut world = world(SIZE);
    for round in 0..50 {
        let before = world.region.wire(0..8, Fires::Always).expect("a wire");
        put(&world.import, 0, &[1]);
        drop(before);
        let at = 100 + round;
        let wire = world.region.wire(at..at + 8, Fires::Once).expect("a wire");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(300));
                put(&world.import, at, &[1]);
            });
            assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
        });
    }
}

/// Its wires may still be held.
#[test]
fn a_region_that_is_dropped_tells_nothing() {
    let mut world = world(SIZE);
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let region = exporter.export(SIZE, &world.queue).expect("a region");
    let wires = [0, 100].map(|at| region.wire(at..at + 8, Fires::Always));
    let wires = wires.map(|wire| wire.expect("a wire"));
    let other = import(&region);
    put(&other, 0, &[1; 200]);
    assert!(world.queue.try_next().expect("a queue").is_some());
    drop(region);
    assert_eq!(all(&mut world.queue), []);
    until("it is revoked", || other.check().is_err());
    drop(other);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(all(&mut world.queue), []);
    drop(wires);
}

fn is_readable(queue: &EventQueue) -> bool {
    let now = Timespec::default();
    let mut list = [PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)];
    poll(&mut list, Some(&now)).expect("polled") > 0
}

/// However they are taken.
#[test]
fn a_descriptor_is_readable_while_events_are_left() {
    let mut world = world(SIZE);
    let wires = [0, 100, 200].map(|at| world.region.wire(at..at + 8, Fires::Always));
    let wires = wires.map(|wire| wire.expect("a wire"));
    let _ = world.queue.as_fd();
    assert_eq!(all(&mut world.queue), []);
    for _ in 0..10 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                put(&world.import, 0, &[1; 300]);
            });
            world.queue.wait().expect("an event");
        });
        for _ in 1..wires.len() {
            assert!(is_readable(&world.queue));
            world.queue.try_next().expect("a queue").expect("an event");
        }
        assert_eq!(all(&mut world.queue), []);
        assert!(!is_readable(&world.queue));
    }
}

/// Without a flush, whatever the exporter has said that nobody has read.
#[test]
fn an_import_that_is_dropped_has_sent_all() {
    const LONG: usize = 8 << 20;
    let world = world(LONG);
    for round in 1..=10_u8 {
        let other = import(&world.region);
        for part in 0..32 {
            let at = part * LONG / 32;
            other
                .write_blocking(at, &vec![round; LONG / 32])
                .expect("written");
        }
        drop(other);
        until("it is there", || {
            get(&world.region, LONG - 1) == [round] && get(&world.region, 0) == [round]
        });
    }
}
