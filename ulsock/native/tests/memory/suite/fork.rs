//! A child of fork has nothing of its parent's.

use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ulsock_native::memory::{Fires, MemoryError};

use super::{SIZE, get, put, world};

/// Runs this in a child, and tells whether it holds there.
fn in_child(holds: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child has one thread, and ends here; what it calls allocates at most, which libc allows there.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(if holds() { 0 } else { 1 });
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status == 0
    }
}

#[test]
fn a_child_has_nothing() {
    let mut world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Once).expect("a wire");
    put(&world.import, 0, &[1; 8]);
    let forked = MemoryError::Forked;
    let (region, import) = (&world.region, &world.import);
    let calls: [&dyn Fn() -> Option<MemoryError>; 10] = [
        &|| region.read(0, &mut [0; 8]).err(),
        &|| region.write(0, &[2; 8]).err(),
        &|| region.load(0).err(),
        &|| region.store(0, 2).err(),
        &|| region.wire(8..9, Fires::Once).err(),
        &|| wire.rearm().err(),
        &|| import.check().err(),
        &|| import.write_blocking(0, &[2; 8]).err(),
        &|| import.flush_blocking().err(),
        &|| import.write_blocking(SIZE, &[2; 8]).err(),
    ];
    for (number, call) in calls.iter().enumerate() {
        assert!(in_child(|| call() == Some(forked)), "call {number}");
    }
    let queue = &mut world.queue;
    assert!(in_child(|| queue.try_next() == Err(forked)));
    assert!(in_child(
        || queue.wait_within(Duration::from_millis(1)) == Err(forked)
    ));
    let mut task = Context::from_waker(Waker::noop());
    assert!(in_child(
        || queue.poll_event(&mut task) == Poll::Ready(Err(forked))
    ));
    assert_eq!(queue.try_next().map(|event| event.is_some()), Ok(true));
    assert_eq!(get(&world.region, 0), [1; 8]);
}

/// Nor does it take anything away.
#[test]
fn what_a_child_drops_stays() {
    let world = world(SIZE);
    let wire = world.region.wire(0..8, Fires::Always).expect("a wire");
    let _ = world.queue.as_fd();
    let mut all = Some((world, wire));
    assert!(in_child(|| {
        drop(all.take());
        true
    }));
    let (mut world, wire) = all.expect("the parent's");
    put(&world.import, 0, &[1; 8]);
    assert_eq!(world.queue.wait().expect("an event").wire, wire.id());
    assert_eq!(world.import.check(), Ok(()));
}
