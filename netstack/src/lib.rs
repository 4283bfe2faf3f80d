//! The core of ulsock, without operating system and without I/O of its own.
//!
//! `watch` holds tripwires on memory that others write. `shared_memory` says what may lie in memory that others write. `ring` holds the shared-memory protocol: byte rings with tripwires, and the rules by which a
//! stream changes between the kernel and a ring at an exact byte; `broadcast` the words of a ring with many readers. `wire` and `link` hold the protocol
//! between two hosts (docs/link.md): its formats, and its behaviour. `failover` holds the rules by which a
//! connection gets onto it and back (docs/failover.md). `port` says what a port is, by which frames get
//! onto a network; those that there are, in `phy`, need an operating system (feature `std`).
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod broadcast;
pub mod circle;
pub mod crc32c;
pub mod failover;
pub mod link;
pub mod notice;
#[cfg(feature = "std")]
pub mod phy;
pub mod port;
pub mod ring;
#[cfg(not(loom))]
pub mod shared_memory;
pub mod time;
pub mod watch;
pub mod wire;
