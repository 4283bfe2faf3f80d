//! ulsock for programs that are written for it: no libc hooks, no LD_PRELOAD.
//!
//! Under each stream lies a connection of kernel TCP, as under those of the preload library: it moves to shared memory or
//! to the link to another host when both ends are ulsock's, and back at any doubt. The other end can be any program,
//! with the preload library, with this one, or without ulsock.
//!
//! - [`TcpStream`] and [`TcpListener`] block, as those of the standard library do.
//! - [`future`] has the same for any executor.
//! - [`memory`] is memory of other programs, to be written, and tripwires on it.
//! - [`group`] has reliable multicast.
//! - [`names`] finds services by name.
//! - [`request`] has calls of services, with replies, on top of [`message`].
//! - [`run`] is an executor for one thread, which waits for rings itself.

/// The examples of the documents run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/native.md")]
struct Chapter;

mod address;
mod calls;
pub mod future;
pub mod group;
mod in_place;
mod listener;
pub mod memory;
pub mod message;
pub mod names;
pub mod request;
pub mod run;
#[doc(hidden)]
pub mod share;
mod socket;
mod start;
mod stream;
mod timer;
mod wait;

pub use in_place::{InPlaceError, OutOfRange, Room, View};
pub use listener::TcpListener;
pub use stream::TcpStream;
