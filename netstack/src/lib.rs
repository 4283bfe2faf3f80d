//! The core of ulsock, without operating system and without I/O of its own.
//!
//! `ring` holds the shared-memory protocol: byte rings with tripwires, and the rules by which a
//! stream changes between the kernel and a ring at an exact byte. `wire` and `link` hold the protocol
//! between two hosts (docs/link.md): its formats, and its behaviour. `phy`, the one part that needs an
//! operating system (feature `std`), has the ports by which its frames get onto a network.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod crc32c;
pub mod link;
#[cfg(feature = "std")]
pub mod phy;
pub mod ring;
pub mod time;
pub mod wire;
