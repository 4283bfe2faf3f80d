//! How a task waits for a socket: tripwires and doorbells on rings, the kernel's events elsewhere, both by an epoll set of
//! ulsock's.

mod reactor;
mod second;
mod set;
mod source;
mod times;

pub use reactor::Reactor;
pub use second::Second;
pub use source::{Direction, Event, Registration};
