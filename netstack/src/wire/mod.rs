//! What the link protocol looks like on the wire (docs/link.md, "Packets").
//!
//! Views over bytes that a stranger may have sent: reading never panics, allocates nothing, and looks
//! at no byte outside the packet. What a view gives is well-formed, not yet true: numbers are expanded
//! and compared by the link, which also checks the CRC.
#![forbid(unsafe_code)]

pub mod ack;
mod bare;
pub mod body;
pub mod frame;
pub mod number;
pub mod packet;
pub mod seal;

pub use ack::Ack;
pub use bare::Bare;
pub use packet::{Header, Kind, Malformed, Packet};
pub use seal::{Addresses, Seal};

pub const VERSION: u8 = 1;

/// `[W5]` Bytes of a packet's header without acknowledgement.
pub const HEADER: usize = 32;
/// The most that header and acknowledgement block can take.
pub const LONGEST_HEAD: usize = HEADER + ack::LONGEST;
/// Paths that a link can have.
pub const PATHS: usize = 8;
