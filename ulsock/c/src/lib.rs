//! The native library for programs in C: `include/ulsock.h` is made from this crate.
//!
//! A call of C's that has to wait is a future of the native library. In a task or a handler, which have stacks of their own
//! ([`fiber`]), it suspends these; elsewhere it runs the thread's loop until it is done ([`thread`]). All the rest is edge:
//! pointers are checked ([`edge`]), objects are lent to one call at a time ([`held`]), and errors become numbers ([`status`]).

mod edge;
mod held;
mod thread;

// The header follows this order.
mod status;

mod fiber;
mod tasks;

mod stream;

mod in_place;

mod writer;

mod peer;

mod reader;

mod endpoint;

mod request;

mod names;

mod group;

mod memory;
