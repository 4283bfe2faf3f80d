//! The NIC's control program: an engine that moves bytes between the rings of local programs and a
//! port, through the link protocol (docs/link.md).
//!
//! Its control side makes it know peers ([`Engine::add_peer`]) and gives it *endpoints*, the ring pairs
//! of single connections ([`Engine::open`], [`Engine::expect`]). From then on [`Engine::poll`] does
//! everything, a bounded amount at a time, and says when it wants to be called again. It owns no thread,
//! no clock, no descriptor, and makes no system call: the same code runs in a daemon, inside the
//! program itself, and in a simulation.
//!
//! What a program writes into its segment is checked here before it is used. Nonsense ends that one
//! endpoint ([`End::Hostile`]), and reaches nobody else.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrive;
mod bells;
mod control;
mod counters;
mod depart;
mod endpoint;
mod event;
mod look;
mod peer;
mod poll;
mod segment;

pub use bells::Bells;
pub use control::{Engine, Refused};
pub use counters::Counters;
pub use event::{End, EndpointId, Event, PeerId};
pub use poll::Rest;
pub use segment::{Half, Segment, lay_out};
