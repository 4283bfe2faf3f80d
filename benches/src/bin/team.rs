//! Many threads: each of the client's has a connection of its own and makes round trips on it; the
//! server has a thread for each connection.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::sync::Barrier;
use std::thread;

use benches::message::{Asker, echo};
use benches::socket::{Listener, Socket};
use benches::trips::Trips;
use benches::{Cli, Load, Outcome, Role};
use clap::Parser;

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address, .. } => serve(&Listener::bind(&address)?),
        Role::Client(load) => ask(&load),
    }
}

/// The first connection says how many there will be.
fn serve(listener: &Listener) -> Outcome {
    let mut count = [0; 8];
    listener.accept()?.read_exact(&mut count)?;
    let threads: Result<Vec<_>, std::io::Error> = (0..u64::from_le_bytes(count))
        .map(|_| {
            let socket = listener.accept()?;
            Ok(thread::spawn(|| {
                echo(socket).map_err(|error| error.to_string())
            }))
        })
        .collect();
    for thread in threads? {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn ask(load: &Load) -> Outcome {
    Socket::connect(&load.address)?.write_all(&load.connections.to_le_bytes())?;
    let start = Barrier::new(load.connections as usize);
    let results: Vec<Result<Trips, String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..load.connections)
            .map(|_| scope.spawn(|| trips(load, &start).map_err(|error| error.to_string())))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|end| end.unwrap_or_else(|_| Err("panicked".to_owned())))
            .collect()
    });
    let mut all = Trips::new()?;
    for result in results {
        all.add(&result?)?;
    }
    all.print()
}

fn trips(load: &Load, start: &Barrier) -> Result<Trips, Box<dyn std::error::Error>> {
    let asker = Asker::connect(&load.address, load.size);
    // Also if this thread cannot connect: the others wait for all.
    start.wait();
    let mut asker = asker?;
    let mut trips = Trips::new()?;
    trips.measure(load.warm_up, load.seconds, || asker.round_trip())?;
    Ok(trips)
}
