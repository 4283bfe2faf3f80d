//! The daemon of a host: owner of the NIC, engine of all programs here, and the one who speaks with the
//! daemons of other hosts. `ulsock nicd` runs it; it is a process of its own, without the preload library.

pub mod caps;
pub mod identity;
pub mod key;
pub mod peers;
pub mod secure;
mod trusted;
