//! The ports: one suite for all of them ([`conformance`]), in network namespaces that the tests make
//! and that vanish with them. Needs root.
//!
//!     cargo test -p netstack --release --features std --test phy

#[path = "phy/checksums.rs"]
mod checksums;
#[path = "phy/conformance.rs"]
mod conformance;
#[path = "phy/figures.rs"]
mod figures;
#[path = "phy/foreign.rs"]
mod foreign;
#[path = "phy/frames.rs"]
mod frames;
#[path = "phy/hooks.rs"]
mod hooks;
#[path = "phy/joined.rs"]
mod joined;
#[path = "phy/linked.rs"]
mod linked;
#[path = "phy/namespace.rs"]
mod namespace;
#[path = "phy/queue.rs"]
mod queue;
#[path = "phy/rig.rs"]
mod rig;
#[path = "phy/routes.rs"]
mod routes;
#[path = "phy/sockets.rs"]
mod sockets;
#[path = "phy/steering.rs"]
mod steering;
#[path = "phy/trouble.rs"]
mod trouble;
#[path = "phy/witness.rs"]
mod witness;
