//! Remote memory and tripwires, after VMMC and CLAN: a program exports a region, others import it with its key and write into it,
//! and the exporter waits for writes into ranges of it.
//!
//! On one host, and for one user, importers map the region: a write is a copy, and no system call unless the exporter sleeps.
//! Elsewhere writes are messages that a thread of the exporter applies. Both end in the same tripwires (`netstack::watch`).

mod answer;
mod bell;
mod error;
mod exporter;
mod host;
mod import;
mod importer;
mod key;
mod link;
mod orders;
mod owner;
mod place;
mod protocol;
mod queue;
mod region;
mod registry;
mod serve;
#[cfg(test)]
mod slow_tests;
#[cfg(test)]
mod tests;
mod turns;
mod wires;
mod writer;

pub use error::MemoryError;
pub use exporter::Exporter;
pub use import::Import;
pub use key::RegionKey;
pub use queue::{Event, EventQueue, WireId};
pub use region::{Region, Tripwire};
pub use wires::Fires;

/// Wires that a region can have at a time.
pub const MOST_WIRES: usize = netstack::watch::WIRES;
