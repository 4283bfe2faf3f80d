//! Round trips: the client sends a message, the server sends it back, one at a time.
#![forbid(unsafe_code)]

use benches::message::{Asker, echo};
use benches::socket::Listener;
use benches::trips::Trips;
use benches::{Cli, Outcome, Role};
use clap::Parser;

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address, .. } => echo(Listener::bind(&address)?.accept()?),
        Role::Client(load) => {
            let mut asker = Asker::connect(&load.address, load.size)?;
            let mut trips = Trips::new()?;
            let (warm_up, length) = (load.warm_up, load.seconds);
            match load.rate {
                0 => trips.measure(warm_up, length, || asker.round_trip())?,
                rate => trips.measure_paced(warm_up, length, rate, || asker.round_trip())?,
            }
            trips.print()
        }
    }
}
