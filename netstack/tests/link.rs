//! The link protocol in a simulated network.

#[path = "link/chaos.rs"]
mod chaos;
#[path = "link/cluster.rs"]
mod cluster;
#[path = "link/either.rs"]
mod either;
#[path = "link/figures/mod.rs"]
mod figures;
#[path = "link/frozen.rs"]
mod frozen;
#[path = "link/fuzz.rs"]
mod fuzz;
#[path = "link/host.rs"]
mod host;
#[path = "link/net.rs"]
mod net;
#[path = "link/pair.rs"]
mod pair;
#[path = "link/rules.rs"]
mod rules;
#[path = "link/scenario.rs"]
mod scenario;
#[path = "link/steps.rs"]
mod steps;
#[path = "link/transfer.rs"]
mod transfer;
#[path = "link/world.rs"]
mod world;
