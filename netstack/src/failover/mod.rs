//! How one side of a connection gets onto a link and back to kernel TCP (docs/failover.md).
//!
//! [`Side`] decides and does nothing: the library tells it what its program wants, what the tail word
//! says and what the kernel brings, and is told what to do. The model of the tests has the same names
//! and the same stages; a change starts there. [`record`] is what the two libraries tell each other in
//! the kernel's own stream.
#![forbid(unsafe_code)]

mod look;
pub mod record;
mod side;
#[cfg(all(test, not(loom)))]
mod tests;

pub use look::{Arrived, Nonsense, Segment};
pub use record::Resume;
pub use side::{Prepare, Role, Side, Stage, Tip};
