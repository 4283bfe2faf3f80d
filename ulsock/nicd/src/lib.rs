//! The daemon of a host: owner of the NIC, engine of all programs here, and the one who speaks with the
//! daemons of other hosts. `ulsock nicd` runs it; it is a process of its own, without the preload library.

mod answers;
mod broker;
mod caller;
mod calls;
pub mod caps;
mod checksums;
mod clock;
mod connection;
mod connections;
mod daemon;
mod door;
mod ending;
mod engine_messages;
mod engine_thread;
mod engines;
mod entry;
mod host;
pub mod identity;
mod idle_port;
mod idle_spin;
mod impair;
mod interface;
pub mod key;
mod lease;
mod leases;
mod names;
mod notify;
mod orphan;
mod pairing;
mod peer_messages;
pub mod peers;
mod posting;
mod program;
mod programs;
mod promote;
mod quiet;
mod reload;
mod roster;
mod routes;
pub mod secure;
mod services;
mod serving;
mod set;
mod shares;
pub mod signals;
mod socket_check;
pub mod source;
mod status;
pub mod store;
mod telling;
#[cfg(test)]
mod tests;
mod translation;
pub mod trusted;

pub use daemon::{Nicd, Options};
pub use engines::MOST_ENGINES;
pub use impair::{BadWord, Impairment};
pub use interface::PortKind;
pub use roster::PeersFrom;
pub use status::{InterfaceStatus, PeerStatus, Status, StoreStatus, ask};

/// One line to whoever started us.
macro_rules! say {
    ($($what:tt)*) => { eprintln!("nicd: {}", format_args!($($what)*)) };
}
use say;
