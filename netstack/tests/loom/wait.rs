//! Sleep and wake-up: for data, for space, with several threads on each side, in both directions.

use super::world::Received;
use super::{EOF, World, check, join, spawn, transfer};
use loom::sync::Arc;
use netstack::ring::Look;

#[test]
fn a_reader_is_woken_by_data() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 2, 10));
        let sender = spawn(&world, |w| {
            w.send_until(1, 11);
            w.send_until(1, 12);
        });
        assert_eq!(world.recv_until(0, EOF, 12), 12);
        sender.join().unwrap();
    });
}

#[test]
fn a_writer_is_woken_by_space() {
    check(3, || {
        // The receiver has moved before the ring gets full, so the sender waits.
        transfer(World::on_ring(0, 2, 10), 15, |w| {
            w.recv_until(0, 1, 12);
        });
    });
}

#[test]
fn a_writer_that_waits_hears_a_wish() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 4, 10));
        // The receiver has moved, so a sender that finds the ring full waits.
        world.sender(1, |s| assert_eq!(world.push(s, 12), 2));
        world.receiver(0, |r| assert!(world.recv_step(r, 1) == Received::Some));
        let sender = spawn(&world, |w| w.send_until(1, 14));
        world.wish(0, false);
        sender.join().unwrap();
        world.kernel.close();
        assert_eq!(world.recv_until(0, EOF, EOF), 14);
    });
}

#[test]
fn a_switch_rings_by_itself() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 2, 10));
        let sender = spawn(&world, |w| {
            w.sender(1, |s| assert!(w.ring_data(s.leave_ring())));
        });
        let before = world.receiver(0, |r| {
            r.arm_data(0, 1, EOF);
            r.look().unwrap()
        });
        if before == Look::Ring(0) {
            world.kernel.sleep_until_readable(Some(0));
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_reader_without_a_bell_asks_for_the_kernel() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 4, 10));
        let sender = spawn(&world, |w| w.send_until(1, 13));
        world.recv_by_kernel(0, 13);
        sender.join().unwrap();
    });
}

#[test]
fn two_readers_share_a_side() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 2, 10));
        let readers = [1, 2].map(|me| spawn(&world, move |w| w.read(me, 1, 12)));
        world.send_until(0, 12);
        // A reader that was too late looks once more.
        world.kernel.close();
        join(readers);
        assert_eq!(world.receiver(0, |r| r.state.pos), 12);
    });
}

#[test]
fn two_readers_are_woken_at_the_least_position() {
    check(3, || {
        let world = Arc::new(World::on_ring(0, 2, 10));
        let low = spawn(&world, |w| {
            w.receiver(1, |r| r.arm_data(1, 2, 11));
            if w.shared
                .producer
                .tail
                .load(loom::sync::atomic::Ordering::Acquire)
                < 11
            {
                w.kernel.sleep_until_readable(Some(1));
            }
        });
        let high = spawn(&world, |w| w.receiver(2, |r| r.arm_data(2, 3, 12)));
        world.send_until(0, 11);
        low.join().unwrap();
        high.join().unwrap();
    });
}

#[test]
fn two_writers_share_a_side() {
    check(2, || {
        let world = Arc::new(World::on_ring(0, 4, 10));
        let writers = [1, 2].map(|me| spawn(&world, move |w| w.send_until(me, 13)));
        assert_eq!(world.recv_until(0, EOF, 13), 13);
        join(writers);
    });
}

#[test]
fn two_writers_and_two_readers() {
    check(1, || {
        let world = Arc::new(World::on_ring(0, 2, 10));
        let writer = spawn(&world, |w| w.send_until(1, 13));
        let readers = [2, 3].map(|me| spawn(&world, move |w| w.read(me, 1, EOF)));
        world.send_until(0, 13);
        writer.join().unwrap();
        world.kernel.close();
        join(readers);
        assert_eq!(world.receiver(0, |r| r.state.pos), 13);
    });
}

#[test]
fn question_and_answer() {
    check(3, || {
        let there = Arc::new(World::on_ring(0, 2, 10));
        let back = Arc::new(World::on_ring(0, 2, 20));
        let (asked, answer) = (there.clone(), back.clone());
        let server = loom::thread::spawn(move || {
            asked.recv_until(1, EOF, 11);
            answer.send_until(1, 21);
        });
        there.send_until(0, 11);
        assert_eq!(back.recv_until(0, EOF, 21), 21);
        server.join().unwrap();
    });
}

#[test]
fn both_directions_change_at_once() {
    check(3, || {
        let there = Arc::new(World::new(0, 2, 0));
        let back = Arc::new(World::on_ring(0, 2, 10));
        let (theirs, ours) = (there.clone(), back.clone());
        let peer = loom::thread::spawn(move || {
            theirs.wish(1, true);
            ours.send_until(1, 11);
            theirs.recv_until(1, EOF, 2);
        });
        back.wish(0, false);
        there.send_until(0, 2);
        assert_eq!(back.recv_until(0, EOF, 11), 11);
        peer.join().unwrap();
    });
}

/// As with kernel buffers: neither end reads before it has sent more than a ring holds.
#[test]
fn both_send_before_they_receive() {
    check(3, || {
        let there = Arc::new(World::on_ring(0, 4, 10));
        let back = Arc::new(World::on_ring(0, 4, 10));
        let (theirs, ours) = (there.clone(), back.clone());
        let peer = loom::thread::spawn(move || {
            ours.send_until(1, 14);
            assert_eq!(theirs.recv_until(1, EOF, 14), 14);
        });
        there.send_until(0, 14);
        assert_eq!(back.recv_until(0, EOF, 14), 14);
        peer.join().unwrap();
    });
}
