//! The sockets layer.
pub mod api;
