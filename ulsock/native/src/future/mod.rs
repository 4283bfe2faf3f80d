//! Streams for any executor: their waits are tasks, and no thread sleeps in them.
//!
//! They implement the traits of `futures-io`, and with the feature `tokio` also tokio's. Under a run loop of ours
//! ([`crate::run`]) the loop itself waits for rings, awake as long as that is worth while; under another executor a thread
//! of ulsock's waits and wakes the tasks.

mod listener;
mod pollable;
mod stream;

pub use listener::TcpListener;
pub use stream::TcpStream;
