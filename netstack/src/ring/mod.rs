//! The shared-memory protocol of one connection.
//!
//! A stream direction is a sequence of *stretches*, each carried by the kernel or by a ring of some
//! level. The sender publishes a [`mark`] where it leaves one stretch for the next; the receiver
//! finishes a stretch before it reads the next one. [`sender`] and [`receiver`] hold the two sides'
//! rules, [`shared`] what both map, [`tripwire`] how a sleeper is woken, [`gate`] and [`lock`] how
//! the threads and forked holders of one side keep out of each other's way, [`handover`] how a
//! receiver leaves to a reader that knows only the kernel, [`tail`] what an engine adds to a ring's tail, [`order`] what
//! somebody outside asks of a connection.

pub mod gate;
pub mod handover;
pub mod lock;
pub mod mark;
pub mod memory;
pub mod order;
pub mod receiver;
pub mod sender;
pub mod shared;
pub mod sync;
pub mod tail;
pub mod tripwire;

pub use gate::Gate;
pub use handover::Unread;
pub use lock::SideLock;
pub use mark::{Carrier, Mark};
pub use memory::{AHEAD, Memory, Sink, Source};
pub use order::OrderWord;
pub use receiver::{Look, Receiver, RxState};
pub use sender::{Sender, TxState};
pub use shared::Shared;
pub use tail::Tail;
pub use tripwire::{Slots, Tripwire};

/// The other side wrote something that no honest peer can write; the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hostile;
