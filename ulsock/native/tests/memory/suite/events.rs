//! Tripwires: who waits for a write hears of it.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use ulsock_native::future::TcpListener;
use ulsock_native::memory::{Event, EventQueue, Exporter, Fires, MOST_WIRES, MemoryError};
use ulsock_native::run;

use super::{SIZE, get, import, put, world};
use crate::begin;

fn none_now(queue: &mut EventQueue) {
    assert_eq!(queue.try_next(), Ok(None));
}

#[test]
fn only_what_is_watched_fires() {
    let mut world = world(SIZE);
    let wire = world.region.wire(100..200, Fires::Always).expect("a wire");
    let other = world.region.wire(150..151, Fires::Always).expect("a wire");
    for (offset, len, fired) in [
        (0, 100, &[][..]),
        (0, 101, &[wire.id()]),
        (150, 1, &[wire.id(), other.id()]),
        (199, 50, &[wire.id()]),
        (200, 50, &[]),
        (150, 0, &[]),
        (0, SIZE, &[wire.id(), other.id()]),
    ] {
        put(&world.import, offset, &vec![1; len]);
        let mut told = HashSet::new();
        while let Some(event) = world.queue.try_next().expect("a queue") {
            assert!(told.insert(event.wire));
        }
        assert_eq!(told, fired.iter().copied().collect(), "{offset} {len}");
    }
    drop(wire);
    put(&world.import, 100, &[1; 20]);
    none_now(&mut world.queue);
}

#[test]
fn once_is_once_until_it_is_set_again() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Once).expect("a wire");
    for _ in 0..3 {
        put(&world.import, 0, &[1]);
        put(&world.import, 1, &[1]);
        let event = Event { wire: wire.id() };
        assert_eq!(world.queue.try_next(), Ok(Some(event)));
        none_now(&mut world.queue);
        put(&world.import, 2, &[1]);
        none_now(&mut world.queue);
        wire.rearm().expect("set");
    }
}

/// What nobody has taken is one event.
#[test]
fn events_of_a_wire_are_gathered() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..SIZE, Fires::Always).expect("a wire");
    for round in 0..5000_u64 {
        world
            .import
            .write_blocking(0, &round.to_ne_bytes())
            .expect("written");
    }
    world.import.flush_blocking().expect("in place");
    assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
    assert_eq!(world.region.load(0), Ok(4999));
    none_now(&mut world.queue);
}

#[test]
fn a_region_has_so_many_wires() {
    let mut world = world(MOST_WIRES * 8);
    let wires: Vec<_> = (0..MOST_WIRES)
        .map(|at| world.region.wire(at * 8..at * 8 + 8, Fires::Always))
        .map(|wire| wire.expect("a wire"))
        .collect();
    let more = world.region.wire(0..1, Fires::Always);
    assert_eq!(more.unwrap_err(), MemoryError::TooManyWires);
    for at in (0..MOST_WIRES).step_by(37) {
        put(&world.import, at * 8 + 3, &[1]);
        assert_eq!(world.queue.wait().expect("an event").wire, wires[at].id());
        none_now(&mut world.queue);
    }
    drop(wires);
    let wire = world.region.wire(0..1, Fires::Always).expect("a wire");
    put(&world.import, 0, &[1; 100]);
    assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
    for range in [5..5, 0..MOST_WIRES * 8 + 1] {
        let refused = world.region.wire(range, Fires::Once);
        assert_eq!(refused.unwrap_err(), MemoryError::OutOfRange);
    }
}

/// A sleeper is woken, and a wait ends in time if nothing comes.
#[test]
fn waits_end() {
    let mut world = world(SIZE);
    let _wire = world.region.wire(0..8, Fires::Always).expect("a wire");
    let begun = Instant::now();
    let none = world.queue.wait_within(Duration::from_millis(50));
    assert_eq!(none, Ok(None));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    for round in 1..=20_u64 {
        let import = &world.import;
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(round % 4 * 3));
                import
                    .write_blocking(0, &round.to_ne_bytes())
                    .expect("written");
            });
            world.queue.wait().expect("an event");
        });
        assert_eq!(world.region.load(0), Ok(round));
    }
}

/// Two programs that answer each other, as fast as they can.
#[test]
fn ping_and_pong() {
    const ROUNDS: u64 = 3000;
    let (mut near, mut far) = (world(64), world(64));
    let _near_wire = near.region.wire(0..8, Fires::Always).expect("a wire");
    let _far_wire = far.region.wire(0..8, Fires::Always).expect("a wire");
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                far.queue.wait().expect("an event");
                assert_eq!(far.region.load(0), Ok(round));
                near.import
                    .write_blocking(0, &round.to_ne_bytes())
                    .expect("written");
            }
        });
        for round in 1..=ROUNDS {
            far.import
                .write_blocking(0, &round.to_ne_bytes())
                .expect("written");
            near.queue.wait().expect("an event");
            assert_eq!(near.region.load(0), Ok(round));
        }
    });
}

/// The events of several regions and importers in one queue.
#[test]
fn a_queue_is_a_set() {
    begin();
    const COUNT: usize = 6;
    let mut queue = EventQueue::new().expect("a queue");
    let exporter = Exporter::bind("127.0.0.1:0").expect("an exporter");
    let regions: Vec<_> = (0..COUNT)
        .map(|_| exporter.export(4096, &queue).expect("a region"))
        .collect();
    let wires: Vec<_> = regions
        .iter()
        .map(|region| region.wire(0..4096, Fires::Always).expect("a wire"))
        .collect();
    thread::scope(|scope| {
        for region in &regions {
            scope.spawn(|| put(&import(region), 9, b"here"));
        }
        let mut missing: HashSet<_> = wires.iter().map(|wire| wire.id()).collect();
        while !missing.is_empty() {
            assert!(missing.remove(&queue.wait().expect("an event").wire));
        }
    });
    for region in &regions {
        assert_eq!(get(region, 9), *b"here");
    }
}

fn is_readable(queue: &EventQueue, time: i64) -> bool {
    let wait = Timespec {
        tv_sec: time,
        tv_nsec: 0,
    };
    let mut list = [PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)];
    poll(&mut list, Some(&wait)).expect("polled") > 0
}

#[test]
fn a_descriptor_tells_of_events() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Always).expect("a wire");
    let event = Ok(Some(Event { wire: wire.id() }));
    // Before anybody has looked at the descriptor.
    put(&world.import, 0, &[1]);
    assert!(is_readable(&world.queue, 5));
    assert_eq!(world.queue.try_next(), event);
    none_now(&mut world.queue);
    assert!(!is_readable(&world.queue, 0));
    for _ in 0..100 {
        put(&world.import, 0, &[1]);
        put(&world.import, 0, &[2]);
        assert!(is_readable(&world.queue, 5));
        assert_eq!(world.queue.try_next(), event);
        none_now(&mut world.queue);
        assert!(!is_readable(&world.queue, 0));
    }
    assert_eq!(world.queue.wait_within(Duration::from_millis(1)), Ok(None));
    put(&world.import, 0, &[1]);
    assert!(is_readable(&world.queue, 5));
}

/// In a program that has a socket already, whose sets do not take ulsock's own descriptors.
#[test]
fn a_task_waits_for_events() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Always).expect("a wire");
    let import = Rc::new(world.import);
    let waits = async {
        let _listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        for round in 0..100_u64 {
            let import = import.clone();
            let written = run::spawn(async move {
                run::sleep(Duration::from_micros(round * 20))
                    .await
                    .expect("a timer");
                import.write(0, &round.to_ne_bytes()).await
            });
            assert_eq!(world.queue.event().await, Ok(Event { wire: wire.id() }));
            assert_eq!(written.await, Ok(()));
        }
    };
    run::block_on(waits).expect("a loop");
}
