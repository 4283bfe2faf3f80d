//! The gate: plain kernel calls in flight or asleep, while the connection is being established.

use super::memory::byte_at;
use super::{EOF, World, check, spawn};
use loom::sync::Arc;
use netstack::ring::{RxState, TxState};

/// A call that goes to the kernel as it is if the gate is open; `false`: it is closed.
fn plain_send(world: &World, position: u64) -> bool {
    if !world.tx.gate.enter() {
        return false;
    }
    world.kernel.send(&[byte_at(position)]);
    world.tx.gate.leave();
    true
}

fn plain_recv(world: &World) -> Option<Vec<u8>> {
    if !world.rx.gate.enter() {
        return None;
    }
    world.kernel.sleep_until_readable(None);
    let bytes = world.kernel.recv(1);
    world.rx.gate.leave();
    Some(bytes)
}

/// Takes the sending direction under management, if no call is inside.
fn establish_sender(world: &World, me: usize) -> bool {
    let closed = world.tx.gate.close();
    if closed {
        let begin = TxState::begin(world.kernel.sent());
        world.sender(me, |s| *s.state = begin);
    }
    closed
}

fn establish_receiver(world: &World, me: usize) -> bool {
    let closed = world.rx.gate.close();
    if closed {
        let begin = RxState::begin(world.kernel.taken());
        world.receiver(me, |r| {
            *r.state = begin;
            r.publish_start();
        });
        world.wish(me, true);
    }
    closed
}

#[test]
fn a_send_in_flight_is_counted() {
    check(3, || {
        let world = Arc::new(World::new(0, 4, 0));
        assert!(establish_receiver(&world, 0));
        let plain = spawn(&world, |w| {
            if !plain_send(w, 0) {
                w.send_until(1, 1);
            }
        });
        let closed = establish_sender(&world, 0);
        plain.join().unwrap();
        assert!(closed || establish_sender(&world, 0));
        world.send_until(0, 3);
        world.kernel.close();
        assert_eq!(world.recv_until(0, EOF, EOF), 3);
    });
}

#[test]
fn a_sleeping_reader_keeps_the_gate_open() {
    check(3, || {
        let world = Arc::new(World::new(0, 4, 0));
        assert!(establish_sender(&world, 0));
        let reader = spawn(&world, |w| match plain_recv(w) {
            Some(bytes) => assert_eq!(bytes, [byte_at(0)]),
            None => w.read(1, 1, 1),
        });
        // If it closes, the reader comes after it and is managed; if not, nothing was granted.
        let closed = establish_receiver(&world, 0);
        world.send_until(2, 2);
        reader.join().unwrap();
        assert!(closed || establish_receiver(&world, 0));
        world.send_until(2, 3);
        world.kernel.close();
        assert_eq!(world.recv_until(0, EOF, EOF), 3);
    });
}

#[test]
fn an_opened_gate_lets_calls_in_again() {
    check(3, || {
        let world = Arc::new(World::new(0, 4, 0));
        assert!(establish_sender(&world, 0));
        let plain = spawn(&world, |w| {
            while !plain_send(w, 0) {
                loom::thread::yield_now();
            }
        });
        world.tx.gate.open();
        plain.join().unwrap();
        assert_eq!(world.kernel.recv(EOF), [byte_at(0)]);
        assert!(establish_sender(&world, 0));
        assert_eq!(world.sender(0, |s| s.state.written), 1);
    });
}
