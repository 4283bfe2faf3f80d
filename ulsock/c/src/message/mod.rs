//! Messages: endpoints and peers. What is sent and received is a [writer](crate::writer) and a [reader](crate::reader).

mod endpoint;
mod peer;

pub use endpoint::{Endpoint, connect};
pub use peer::Peer;
