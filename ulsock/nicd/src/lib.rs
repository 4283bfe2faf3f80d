//! The daemon of a host: owner of the NIC, engine of all programs here, and the one who speaks with the
//! daemons of other hosts. `ulsock nicd` runs it; it is a process of its own, without the preload library.

mod broker;
mod calls;
pub mod caps;
mod connection;
mod connections;
mod daemon;
mod door;
mod ending;
mod host;
pub mod identity;
mod impair;
mod interface;
pub mod key;
mod lease;
mod names;
mod notify;
mod orphan;
pub mod peers;
mod program;
mod promote;
mod quiet;
mod reload;
mod rest;
mod routes;
pub mod secure;
mod seekers;
mod set;
mod shares;
mod signals;
mod status;
#[cfg(test)]
mod tests;
mod trusted;
mod vigil;
mod words;

pub use daemon::{Nicd, Options};
pub use impair::{BadWord, Impairment};
pub use interface::Kind as PortKind;
pub use status::{ask, Status};

/// One line to whoever started us.
macro_rules! say {
    ($($what:tt)*) => { eprintln!("nicd: {}", format_args!($($what)*)) };
}
use say;
