//! Short connections: the client connects, sends one message, reads its echo and hangs up, over and
//! over. A message that begins with `STOP` ends the server.
#![forbid(unsafe_code)]

use std::io::{Read, Write};

use benches::socket::{Listener, Socket};
use benches::trips::Trips;
use benches::{Cli, Load, Outcome, Role};
use clap::Parser;

/// Every message has this size.
const SIZE: usize = 64;
const GO_ON: u8 = 0;
const STOP: u8 = 1;

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address, .. } => serve(&Listener::bind(&address)?),
        Role::Client(load) => ask(&load),
    }
}

fn serve(listener: &Listener) -> Outcome {
    let mut message = [0; SIZE];
    while message[0] != STOP {
        let mut socket = listener.accept()?;
        socket.read_exact(&mut message)?;
        socket.write_all(&message)?;
    }
    Ok(())
}

fn ask(load: &Load) -> Outcome {
    let mut trips = Trips::new()?;
    trips.measure(load.warm_up, load.seconds, || dial(&load.address, GO_ON))?;
    dial(&load.address, STOP)?;
    trips.print()
}

fn dial(address: &str, first: u8) -> Outcome {
    let mut socket = Socket::connect(address)?;
    let mut message = [first; SIZE];
    socket.write_all(&message)?;
    socket.read_exact(&mut message)?;
    match message == [first; SIZE] {
        true => Ok(()),
        false => Err("other bytes came back".into()),
    }
}
