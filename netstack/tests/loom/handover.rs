//! A reader that knows no ring takes the kernel socket over: it gets the rest of the stream, all of
//! it and nothing twice.

use super::memory::Check;
use super::{EOF, World, check, spawn};
use loom::sync::Arc;
use netstack::ring::Unread;

/// Where the stranger begins to read; `None` if some bytes are in the ring alone, which the receiver
/// has to read itself.
fn hand_over(world: &World) -> Option<u64> {
    world.wish(0, false);
    loop {
        let queued = world.kernel.queued().bytes;
        let (unread, pos) =
            world.receiver(0, |r| (r.onto_kernel(queued, false).unwrap(), r.state.pos));
        match unread {
            Unread::InKernel { skip } => {
                assert_eq!(world.kernel.recv(skip).len() as u64, skip);
                return Some(pos);
            }
            Unread::None => return Some(pos),
            Unread::OnTheWay => loom::thread::yield_now(),
            Unread::InRing => return None,
        }
    }
}

fn read_as_stranger(world: &World, pos: u64) -> u64 {
    let mut check = Check(pos);
    loop {
        let queued = world.kernel.queued();
        if queued.bytes == 0 && queued.eof {
            return check.0;
        }
        let bytes = world.kernel.recv(u64::MAX);
        bytes.iter().for_each(|byte| check.byte(*byte));
        if bytes.is_empty() {
            world.kernel.sleep_until_readable(None);
        }
    }
}

fn taken_over(world: World, end: u64) {
    let world = Arc::new(world);
    let sender = spawn(&world, move |w| {
        w.send_until(1, end);
        w.kernel.close();
    });
    let read = match hand_over(&world) {
        Some(pos) => read_as_stranger(&world, pos),
        None => world.recv_until(0, 1, EOF),
    };
    assert_eq!(read, end);
    sender.join().unwrap();
}

#[test]
fn while_the_sender_is_on_the_ring() {
    check(3, || taken_over(World::on_ring(0, 8, 0), 2));
}

#[test]
fn while_the_sender_enters_the_ring() {
    check(3, || {
        let world = World::new(0, 8, 5);
        world.wish(0, true);
        taken_over(world, 7);
    });
}

#[test]
fn with_unread_bytes_in_two_levels() {
    check(2, || {
        let world = World::on_ring(1, 8, 0);
        world.sender(1, |s| world.push(s, 1));
        world.sender(1, |s| s.grow(1).unwrap());
        taken_over(world, 3);
    });
}

#[test]
fn from_a_sender_that_cannot_ring() {
    check(3, || taken_over(World::on_ring(0, 8, 0).without_bells(), 2));
}
