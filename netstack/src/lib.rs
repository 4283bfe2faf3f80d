//! The core of ulsock, without operating system and without I/O of its own.
//!
//! `ring` holds the shared-memory protocol: byte rings with tripwires, and the rules by which a
//! stream changes between the kernel and a ring at an exact byte.
#![no_std]

pub mod ring;
