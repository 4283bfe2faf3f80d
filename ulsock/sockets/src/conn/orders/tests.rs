//! Connections that are ordered to the kernel and back while bytes flow.

use std::sync::atomic::Ordering;

use rendezvous::reason::Reason;

use crate::state::orders::{self, Order};
use crate::state::process_group;
use crate::state::record::{Record, flag};
use crate::testing::{Fd, ON_KERNEL, ON_RINGS, Program, World};

/// Calls until an order has been followed, and more than one that is not would need.
const ENOUGH: usize = 600;

fn order(program: Program, fd: Fd, order: Order) {
    program.record(fd, |record| orders::ask(record, order));
}

fn order_all(program: Program, off: bool) {
    program.run(|| {
        let family = process_group::own().expect("a family");
        family
            .header()
            .order
            .store(u32::from(off), Ordering::Release);
        for number in family.used() {
            family.record(number).set(flag::ORDERED);
            family.record(number).next_look.store(0, Ordering::Relaxed);
        }
    });
}

fn carriers(world: &World) -> [[crate::testing::On; 2]; 2] {
    [
        world.client.carriers(world.near),
        world.server.carriers(world.far),
    ]
}

fn speak_until(world: &World, is_there: impl Fn(&World) -> bool) -> bool {
    (0..ENOUGH).any(|_| {
        exchange(world);
        is_there(world)
    })
}

/// As a round trip, but receives may have to ask more than once: where a ring was expected the kernel is looked at seldom.
fn exchange(world: &World) {
    let until = |program: Program, fd: Fd, byte: &[u8]| {
        let got = (0..100_000).find_map(|_| program.receive(fd, 8).ok());
        assert_eq!(got.as_deref(), Some(byte));
    };
    assert_eq!(world.client.send(world.near, b">"), Ok(1));
    until(world.server, world.far, b">");
    assert_eq!(world.server.send(world.far, b"<"), Ok(1));
    until(world.client, world.near, b"<");
}

fn is_on_kernel(world: &World) -> bool {
    carriers(world) == [ON_KERNEL; 2]
}

fn is_on_rings(world: &World) -> bool {
    carriers(world) == [ON_RINGS; 2]
}

/// By one end, whichever it is; the other one knows why.
#[test]
fn one_end_takes_both_directions_along() {
    for client_is_asked in [true, false] {
        let world = World::promoted();
        let (program, fd) = match client_is_asked {
            true => (world.client, world.near),
            false => (world.server, world.far),
        };
        order(program, fd, Order::Kernel);
        assert!(speak_until(&world, is_on_kernel), "{:?}", carriers(&world));
        for _ in 0..50 {
            exchange(&world);
            assert!(is_on_kernel(&world));
        }
        let reasons = [
            world.client.record(world.near, Record::reason),
            world.server.record(world.far, Record::reason),
        ];
        assert_eq!(reasons, [Reason::Ordered; 2]);
        order(program, fd, Order::Free);
        assert!(speak_until(&world, is_on_rings), "{:?}", carriers(&world));
        exchange(&world);
        let reasons = [
            world.client.record(world.near, Record::reason),
            world.server.record(world.far, Record::reason),
        ];
        assert_eq!(reasons, [Reason::None; 2]);
    }
}

/// What lies in the rings, in both directions, when the order is followed.
#[test]
fn unread_bytes_come_along() {
    let world = World::promoted();
    for round in 0..20_u8 {
        let asked = match round % 2 {
            0 => Order::Kernel,
            _ => Order::Free,
        };
        let there: Vec<u8> = (0..200).map(|n| n ^ round).collect();
        assert_eq!(world.client.send(world.near, &there), Ok(200));
        assert_eq!(world.server.send(world.far, &there), Ok(200));
        order(world.client, world.near, asked);
        if round % 3 == 0 {
            order(world.server, world.far, asked);
        }
        assert_eq!(world.client.send(world.near, &there), Ok(200));
        assert_eq!(world.server.send(world.far, &there), Ok(200));
        let both = [there.clone(), there].concat();
        for (program, fd) in [(world.server, world.far), (world.client, world.near)] {
            let mut got = Vec::new();
            for _ in 0..1_000_000 {
                got.extend(program.receive(fd, 1000).unwrap_or_default());
                if got.len() >= both.len() {
                    break;
                }
            }
            assert!(got == both, "round {round}: {} bytes", got.len());
        }
    }
}

#[test]
fn a_plain_connection_is_held_back_until_it_is_free() {
    for client_is_asked in [true, false] {
        let world = World::plain();
        let (program, fd) = match client_is_asked {
            true => (world.client, world.near),
            false => (world.server, world.far),
        };
        order(program, fd, Order::Kernel);
        for _ in 0..50 {
            exchange(&world);
        }
        assert!(is_on_kernel(&world));
        assert_eq!(program.record(fd, Record::reason), Reason::Ordered);
        assert!(!program.is_managed(fd));
        order(program, fd, Order::Free);
        assert!(speak_until(&world, is_on_rings), "{:?}", carriers(&world));
    }
}

#[test]
fn a_program_is_switched_off_and_on() {
    let world = World::promoted();
    order_all(world.server, true);
    assert!(speak_until(&world, is_on_kernel), "{:?}", carriers(&world));
    order(world.server, world.far, Order::Free);
    for _ in 0..50 {
        exchange(&world);
    }
    assert!(is_on_kernel(&world), "all means all");
    order_all(world.server, false);
    assert!(speak_until(&world, is_on_rings), "{:?}", carriers(&world));
}

#[test]
fn what_makes_no_sense_asks_nothing() {
    let world = World::promoted();
    world.server.run(|| {
        let family = process_group::own().expect("a family");
        family.header().order.store(77, Ordering::Release);
    });
    world.client.record(world.near, |record| {
        let generation = record.generation.load(Ordering::Acquire);
        assert!(record.order.ask(generation, 99, || generation));
        record.set(flag::ORDERED);
    });
    exchange(&world);
    assert!(is_on_rings(&world));
    assert!(!world.client.record(world.near, |it| it.has(flag::ORDERED)));
}

/// What was asked of the connection that had the record before.
#[test]
fn another_connection_is_not_meant() {
    let world = World::promoted();
    world.client.record(world.near, |record| {
        let generation = record.generation.load(Ordering::Acquire) - 1;
        assert!(record.order.ask(generation, 1, || generation));
        record.set(flag::ORDERED);
    });
    for _ in 0..20 {
        exchange(&world);
    }
    assert!(is_on_rings(&world));
}

/// The last one counts, also of several that no call has come between.
#[test]
fn the_last_order_counts() {
    let world = World::promoted();
    order(world.client, world.near, Order::Kernel);
    order(world.client, world.near, Order::Free);
    exchange(&world);
    assert!(is_on_rings(&world));
    order(world.client, world.near, Order::Free);
    order(world.client, world.near, Order::Kernel);
    assert!(speak_until(&world, is_on_kernel));
}
