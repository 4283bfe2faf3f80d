//! The protocol of one connection under loom: ring, tripwires, marks, wishes, gate and side lock
//! together, with a model kernel and model memory. Every byte is checked by its position, every race
//! on memory and every sleeper that nobody wakes is a failure.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p netstack --release --test loom`.
#![cfg(loom)]

#[path = "loom/kernel.rs"]
mod kernel;
#[path = "loom/memory.rs"]
mod memory;
#[path = "loom/world.rs"]
mod world;

#[path = "loom/broadcast.rs"]
mod broadcast;
#[path = "loom/circle.rs"]
mod circle;
#[path = "loom/death.rs"]
mod death;
#[path = "loom/end.rs"]
mod end;
#[path = "loom/establish.rs"]
mod establish;
#[path = "loom/freeze.rs"]
mod freeze;
#[path = "loom/handover.rs"]
mod handover;
#[path = "loom/notice.rs"]
mod notice;
#[path = "loom/order.rs"]
mod order;
#[path = "loom/switch.rs"]
mod switch;
#[path = "loom/wait.rs"]
mod wait;
#[path = "loom/watch.rs"]
mod watch;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use world::World;

/// No end of the stream but the kernel's.
const EOF: u64 = u64::MAX;

/// Runs all schedules with up to `preemptions` of them forced upon running threads.
fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(f);
}

fn spawn(world: &Arc<World>, f: impl FnOnce(&World) + 'static) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || f(&world))
}

fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// A sender thread that sends up to `end` and closes; the receiver runs here and must get it all.
fn transfer(world: World, end: u64, receive: impl FnOnce(&World)) {
    let world = Arc::new(world);
    let sender = spawn(&world, move |w| {
        w.send_until(1, end);
        w.kernel.close();
    });
    receive(&world);
    assert_eq!(world.recv_until(0, EOF, EOF), end);
    sender.join().unwrap();
}
