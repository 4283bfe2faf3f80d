//! The sockets layer of ulsock: connections leave kernel TCP for rings in shared memory, and return to it at
//! any doubt. Those between programs of one host share them; to another host they lead to an engine.
//!
//! Six rooms, one above the other; a module imports from its own room and from those below it.
//! `api` is what the preload library calls.

mod calls;
mod conn;
mod promote;
mod ready;
mod runtime;
mod state;

pub use calls::api;
pub use state::capture;
pub use state::journal;
pub use state::observe;
pub use state::orders;
pub use state::stats;

/// What `ulsock doctor` asks about a process's limits, its daemons and what is chosen for it.
pub mod facts {
    pub use crate::calls::limits::are_too_low as limits_are_too_low;
    pub use crate::state::daemon_client::trusted as trusted_daemon;
    pub use crate::state::upgrade_history::range as calls_before_upgrade;
}

#[cfg(test)]
mod testing;
