//! A participant that stops for ever, at each of its steps in turn.

use super::memory::{Collect, Rings};
use super::{EOF, World, check, spawn};
use loom::sync::Arc;
use netstack::ring::{Sender, Slots};

type Step = fn(&World, &mut Sender<Rings>);

/// The life of a sender: every way onto a ring, through it and off it again.
const LIFE: [Step; 8] = [
    |w, s| push_until(w, s, 2),
    |w, s| ring(w, s.grow(1).unwrap_or(0)),
    |w, s| push_until(w, s, 3),
    |w, s| ring(w, s.yield_ring().unwrap()),
    |w, s| send_again(w, s, 1),
    |w, s| send_again(w, s, u64::MAX),
    |w, s| w.follow_wish(s),
    |w, s| push_until(w, s, 4),
];

fn push_until(world: &World, s: &mut Sender<Rings>, end: u64) {
    let _pushed = world.push(s, end);
}

fn ring(world: &World, slots: Slots) {
    assert!(world.ring_data(slots));
}

fn send_again(world: &World, s: &mut Sender<Rings>, most: u64) {
    let mut again = Collect(Vec::new());
    s.resend(most, &mut again);
    let n = world.kernel.send(&again.0);
    s.resent(n);
}

/// Everything a sender has published is read, wherever it dies; then comes the end of the stream.
#[test]
fn a_dead_sender_leaves_all_it_published() {
    for steps in 0..=LIFE.len() {
        check(2, move || {
            let world = Arc::new(World::on_ring(1, 8, 0));
            let sender = spawn(&world, move |w| {
                w.die_as_sender(1, |s| LIFE[..steps].iter().for_each(|step| step(w, s)));
                w.kernel.close();
            });
            let end = world.recv_until(0, 1, EOF);
            sender.join().unwrap();
            assert_eq!(end, world.sender(0, |s| s.state.written));
        });
    }
}

/// The same while the receiver wishes to leave the ring.
#[test]
fn a_dead_sender_cannot_hold_back_a_wish() {
    for steps in 1..=4 {
        check(3, move || {
            let world = Arc::new(World::on_ring(1, 8, 0));
            let sender = spawn(&world, move |w| {
                w.die_as_sender(1, |s| LIFE[..steps].iter().for_each(|step| step(w, s)));
                w.kernel.close();
            });
            world.wish(0, false);
            let end = world.recv_until(0, EOF, EOF);
            sender.join().unwrap();
            assert_eq!(end, world.sender(0, |s| s.state.written));
        });
    }
}

/// Another holder goes on where a dead one stopped; the reader gets everything from both.
#[test]
fn another_holder_takes_a_dead_senders_lock() {
    for steps in 0..=4 {
        check(2, move || {
            let world = Arc::new(World::on_ring(1, 8, 0));
            let dead = spawn(&world, move |w| {
                w.die_as_sender(1, |s| LIFE[..steps].iter().for_each(|step| step(w, s)));
            });
            let heir = spawn(&world, |w| {
                w.send_until(2, 4);
                w.kernel.close();
            });
            assert_eq!(world.recv_until(0, EOF, EOF), 4);
            dead.join().unwrap();
            heir.join().unwrap();
        });
    }
}

/// A sender without a living reader is never stuck while the kernel has room, nor after its reset.
#[test]
fn a_dead_receiver_blocks_nobody() {
    for read in 0..=2 {
        check(3, move || {
            let world = Arc::new(World::on_ring(0, 4, 10));
            let receiver = spawn(&world, move |w| {
                w.die_as_receiver(1, |r| {
                    for _ in 0..read {
                        w.recv_step(r, 1);
                    }
                });
                if read > 0 {
                    w.kernel.reset();
                }
            });
            // Two bytes fit into the ring and four into the kernel.
            world.send_until(0, 16);
            receiver.join().unwrap();
        });
    }
}

#[test]
fn another_holder_takes_a_dead_receivers_lock() {
    for read in 0..=3 {
        check(2, move || {
            let world = Arc::new(World::on_ring(0, 4, 10));
            let dead = spawn(&world, move |w| {
                w.die_as_receiver(2, |r| {
                    for _ in 0..read {
                        w.recv_step(r, 1);
                    }
                });
            });
            let sender = spawn(&world, |w| {
                w.send_until(1, 13);
                w.kernel.close();
            });
            assert_eq!(world.recv_until(0, 1, EOF), 13);
            dead.join().unwrap();
            sender.join().unwrap();
        });
    }
}
