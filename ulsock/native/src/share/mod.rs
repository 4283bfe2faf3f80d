//! How a program gives descriptors, of memory and of bells, to another one of the same host and user.
//!
//! Who gives deposits them at the counter of its process, and sends the [`Ticket`] to the other one over the link that they
//! have. That one fetches them with it, and whoever does not know the ticket gets nothing. A fetch that fails, because the other
//! program is on another host, of another user or gone, says so soon: then the link has to carry the bytes.

mod counter;
mod error;
mod fetch;
mod parcel;
mod ticket;

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use os::fds::InternalFd;
use rendezvous::config::Config;
use rendezvous::rundir::RunDir;

pub use counter::{Deposit, Uses};
pub use error::FetchError;
pub use parcel::MOST;
pub use ticket::{LEN, Secret, Ticket};

use counter::Counter;

/// Gives these descriptors, at most [`MOST`], to whoever fetches them with the ticket, until the deposit is dropped.
pub fn deposit(fds: Vec<InternalFd>, uses: Uses) -> io::Result<Deposit> {
    let make = || Counter::open(&run_dir().ok_or(io::ErrorKind::Unsupported)?);
    Counter::of_this_process(make)?.deposit(fds, uses)
}

/// Gets what was deposited, which must be `count` descriptors. Takes a second at most, usually some 50 us.
pub fn fetch(ticket: &Ticket, count: usize) -> Result<Vec<InternalFd>, FetchError> {
    fetch::fetch(&run_dir().ok_or(FetchError::NotHere)?, ticket, count)
}

/// The same, for who has less time.
pub fn fetch_within(
    ticket: &Ticket,
    count: usize,
    time: Duration,
) -> Result<Vec<InternalFd>, FetchError> {
    let dir = run_dir().ok_or(FetchError::NotHere)?;
    fetch::fetch_within(&dir, ticket, count, time)
}

/// `None`: this process may not meet others, or cannot.
fn run_dir() -> Option<RunDir> {
    let config = Config::from_env().ok().filter(|config| config.enabled)?;
    RunDir::open(&config.run_dir).ok()
}
