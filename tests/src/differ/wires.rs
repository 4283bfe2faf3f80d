//! The numbers at which an actor finds what the controller gave it, and the words between them.
//!
//! They are pipes, never sockets, so that nothing of the test itself goes through ulsock. They lie
//! above all numbers that programs use and below those that ulsock takes for itself.

/// The threads of an actor that run steps; one more waits for the order to exit.
pub const THREADS: usize = 3;
/// The thread that runs no steps.
pub const CONTROL: usize = THREADS;

const FIRST: i32 = 700;
const PER_ACTOR: i32 = 8;

/// Where a thread reads its commands.
pub fn command(actor: usize, thread: usize) -> i32 {
    FIRST + actor as i32 * PER_ACTOR + thread as i32
}

/// Where all threads of an actor write what came of them.
pub fn reply(actor: usize) -> i32 {
    FIRST + actor as i32 * PER_ACTOR + PER_ACTOR - 1
}

/// The Unix socket between A and B, over which descriptors are passed.
pub const PASS: i32 = FIRST + 4 * PER_ACTOR;

/// The actor that is forked from `actor`.
pub fn child_of(actor: usize) -> Option<usize> {
    (actor < 2).then_some(actor + 2)
}
