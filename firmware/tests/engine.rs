//! Two engines with a simulated network between them, and programs that know nothing but their rings.
//! A program that sleeps is run again only when its bell rings: a lost wake-up is a test that gets stuck.

mod failover;
#[path = "engine/host.rs"]
mod host;
#[path = "engine/program.rs"]
mod program;
#[path = "../../netstack/tests/support/memory.rs"]
mod support;
#[path = "engine/world.rs"]
mod world;

#[path = "engine/glance.rs"]
mod glance;
#[path = "engine/neighbours.rs"]
mod neighbours;
#[path = "engine/protection.rs"]
mod protection;
#[path = "engine/transfer.rs"]
mod transfer;
