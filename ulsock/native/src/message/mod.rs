//! Messages between endpoints, after Fast Messages 2.x: a sender gathers a message from pieces, and a handler at the
//! receiver takes it apart into pieces of its own, beginning before all of it has come.
//!
//! Delivery is reliable and in order for each pair. Credit bounds what a peer can make a receiver keep, and a receiver that
//! extracts nothing holds its senders back, and nobody else. Messages that handlers send have credit of their own, so that
//! two endpoints that have both used up theirs can still answer.

mod credit;
mod driver;
mod endpoint;
mod error;
mod frame;
mod handlers;
mod incoming;
mod layer;
mod link;
mod outgoing;
mod peer;
mod reader;
mod ready;
mod receive;
mod send;
mod wakers;

pub use endpoint::Endpoint;
pub use error::{MessageError, Nonsense};
pub use incoming::Incoming;
pub use layer::RESERVED;
pub(crate) use layer::{Layer, Tasks};
pub use outgoing::Outgoing;
pub use peer::Peer;
