//! Changes of the carrier, from either end and from both at once.

use super::{EOF, World, check, spawn, transfer};
use loom::sync::Arc;

#[test]
fn promoted_while_bytes_are_in_the_kernel() {
    check(3, || {
        transfer(World::new(0, 2, 0), 4, |w| w.wish(0, true));
    });
}

#[test]
fn receiver_wishes_ring_kernel_ring() {
    check(2, || {
        transfer(World::new(0, 2, 0), 4, |w| {
            w.wish(0, true);
            w.wish(0, false);
            w.recv_until(0, 1, 1);
            w.wish(0, true);
        });
    });
}

#[test]
fn receiver_changes_its_mind_on_the_ring() {
    check(3, || {
        transfer(World::on_ring(0, 2, 10), 14, |w| {
            w.wish(0, false);
            w.recv_until(0, 1, 11);
            w.wish(0, true);
        });
    });
}

#[test]
fn sender_spills_while_the_receiver_wishes_the_kernel() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 8, 0));
        let sender = spawn(&world, |w| {
            w.sender(1, |s| w.push(s, 2));
            w.sender(1, |s| w.ring_data(s.leave_ring()));
            w.send_until(1, 4);
            w.kernel.close();
        });
        world.wish(0, false);
        assert_eq!(world.recv_until(0, 1, EOF), 4);
        sender.join().unwrap();
    });
}

#[test]
fn sender_spills_while_the_receiver_wishes_the_ring_again() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 8, 0));
        let sender = spawn(&world, |w| {
            w.sender(1, |s| w.push(s, 1));
            w.sender(1, |s| w.ring_data(s.leave_ring()));
            w.send_until(1, 4);
            w.kernel.close();
        });
        world.wish(0, false);
        world.wish(0, true);
        assert_eq!(world.recv_until(0, 2, EOF), 4);
        sender.join().unwrap();
    });
}

#[test]
fn growth_and_spill_with_unread_marks() {
    check(3, || {
        // Seven bytes into rings of two and four: it grows once and spills.
        transfer(World::on_ring(1, 8, 0), 7, |_| {});
    });
}

#[test]
fn growth_with_a_slow_reader() {
    check(2, || {
        transfer(World::on_ring(1, 8, 10), 16, |w| {
            w.recv_until(0, 1, 13);
        });
    });
}

/// A sender on the second ring that shrinks between two bursts, if it can.
fn shrinks(room: usize, receive: impl FnOnce(&World)) {
    let world = Arc::new(World::on_ring(1, room, 10));
    world.sender(1, |s| {
        s.grow(1).unwrap();
        world.push(s, 12)
    });
    let sender = spawn(&world, |w| {
        w.shrink(1);
        w.send_until(1, 13);
        w.shrink(1);
        w.send_until(1, 16);
        w.kernel.close();
    });
    receive(&world);
    assert_eq!(world.recv_until(0, EOF, EOF), 16);
    sender.join().unwrap();
}

#[test]
fn shrinking_while_the_receiver_reads() {
    check(3, || shrinks(8, |_| {}));
}

#[test]
fn shrinking_while_the_receiver_wishes_the_kernel() {
    check(2, || shrinks(8, |w| w.wish(0, false)));
}

#[test]
fn shrinking_while_the_receiver_wishes_kernel_and_ring() {
    check(2, || {
        shrinks(2, |w| {
            w.wish(0, false);
            w.recv_until(0, 1, 12);
            w.wish(0, true);
        });
    });
}

#[test]
fn demotion_sends_again_from_all_levels() {
    check(3, || {
        let world = Arc::new(World::on_ring(1, 3, 0));
        world.sender(1, |s| w_fill(&world, s));
        let sender = spawn(&world, |w| {
            w.send_until(1, 6);
            w.kernel.close();
        });
        world.wish(0, false);
        assert_eq!(world.recv_until(0, 1, EOF), 6);
        sender.join().unwrap();
    });
}

/// Two bytes in the first ring and two in the second, all unread.
fn w_fill(world: &World, s: &mut netstack::ring::Sender<super::memory::Rings>) {
    assert_eq!(world.push(s, 2), 2);
    s.grow(1).unwrap();
    assert_eq!(world.push(s, 4), 2);
}

#[test]
fn a_reader_without_rings_gets_all_after_demotion() {
    check(3, || {
        let world = Arc::new(World::on_ring(1, 8, 0));
        world.sender(1, |s| w_fill(&world, s));
        let sender = spawn(&world, |w| w.send_until(1, 6));
        world.receiver(0, |r| {
            world.recv_step(r, 1);
        });
        world.wish(0, false);
        sender.join().unwrap();
        // The sender's next call, at the latest, does what was wished.
        world.sender(1, |s| world.follow_wish(s));
        world.send_until(1, 6);
        // From here on a program that knows nothing of rings reads the kernel socket.
        let mut check = super::memory::Check(1);
        let rest = world.kernel.recv(EOF);
        assert_eq!(rest.len(), 5);
        rest.iter().for_each(|byte| check.byte(*byte));
    });
}

#[test]
fn a_poke_wakes_a_reader_without_a_bell() {
    check(3, || {
        transfer(World::on_ring(0, 2, 10).without_bells(), 13, |_| {});
    });
}

#[test]
fn a_poke_and_back_to_the_ring() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 2, 0));
        let sender = spawn(&world, |w| {
            w.sender(1, |s| w.push(s, 1));
            w.sender(1, |s| w.ring_data(s.leave_with_poke()));
            w.send_until(1, 3);
            w.kernel.close();
        });
        assert_eq!(world.recv_until(0, 1, EOF), 3);
        sender.join().unwrap();
    });
}
