//! Requests of a program that is written for ulsock: one client calls over one or many connections, a fixed number of
//! calls at a time, each on the next connection.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use benches::{Load, Outcome, limits};
use clap::{Parser, Subcommand};
use native::message::Endpoint;
use native::request::{Caller, RequestError, Requests};
use native::run::{block_on, spawn};
use serde::Serialize;

const ECHO: u16 = 1;
/// Calls before the measurement on each connection, so that it has moved to its carrier.
const CALLS_AHEAD: usize = 20;
/// Calls of one task between two looks at the clock.
const CLOCK_EVERY: usize = 16;

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Serve until all clients have gone, then exit; the port is printed on stdout
    Server {
        /// HOST:PORT; port 0 lets the system choose
        address: String,
    },
    /// Connect to a server, measure, print one line of JSON
    Client {
        #[command(flatten)]
        load: Load,
        /// Calls under way at the same time, on all connections together
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        at_once: u32,
    },
}

#[derive(Serialize)]
struct Line {
    messages: usize,
    seconds: f64,
    messages_per_s: f64,
    /// With those before and after the measurement.
    total_messages: usize,
}

fn main() -> Outcome {
    limits::raise_open_files()?;
    match Cli::parse().role {
        Role::Server { address } => block_on(serve(&address))?,
        Role::Client { load, at_once } => block_on(call(&load, at_once))?,
    }
}

async fn serve(address: &str) -> Outcome {
    let endpoint = Rc::new(Endpoint::bind(address)?);
    let requests = Requests::new(&endpoint)?;
    requests.answer(ECHO, |bytes: Vec<u8>| async move { Ok(bytes) });
    println!("{}", endpoint.local_addr().ok_or("no address")?.port());
    // All of them can have come and gone while one turn is extracted.
    let arrived = Rc::new(Cell::new(false));
    let first = arrived.clone();
    endpoint.on_arrival(move |_| first.set(true));
    while !arrived.get() {
        endpoint.extract(usize::MAX).await?;
    }
    let serving = endpoint.clone();
    drop(spawn(async move { serving.serve().await }));
    // They all leave at the same time.
    while let Some(peer) = endpoint.peers().pop() {
        peer.gone().await;
    }
    Ok(())
}

/// Calls of all tasks.
struct Calls {
    callers: Vec<Caller>,
    bytes: Vec<u8>,
    begun: Cell<usize>,
    done: Cell<usize>,
    failure: RefCell<Option<RequestError>>,
}

impl Calls {
    /// On the next connection.
    async fn one(&self) -> Result<(), RequestError> {
        let next = self.begun.replace(self.begun.get() + 1);
        let caller = &self.callers[next % self.callers.len()];
        let reply = caller.call(ECHO, &self.bytes).await?;
        assert!(reply == self.bytes, "another reply");
        self.done.set(self.done.get() + 1);
        Ok(())
    }

    /// One after the other, until one fails.
    async fn run(self: Rc<Self>) {
        while self.failure.borrow().is_none() {
            if let Err(error) = self.one().await {
                self.failure.replace(Some(error));
            }
        }
    }

    /// The same, until so many are done and so much time is over.
    async fn until(&self, calls: usize, seconds: f64) -> Result<(usize, f64), RequestError> {
        let (before, start) = (self.done.get(), Instant::now());
        loop {
            for _ in 0..CLOCK_EVERY {
                self.one().await?;
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            let (done, time) = (self.done.get() - before, start.elapsed().as_secs_f64());
            if done >= calls && time >= seconds {
                return Ok((done, time));
            }
        }
    }
}

async fn call(load: &Load, at_once: u32) -> Outcome {
    let endpoint = Rc::new(Endpoint::new());
    let requests = Requests::new(&endpoint)?;
    drop(spawn(async move { endpoint.serve().await }));
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        callers.push(requests.connect(load.address.parse()?).await?);
    }
    let calls = Rc::new(Calls {
        callers,
        bytes: vec![0x5a; usize::try_from(load.size)?],
        begun: Cell::new(0),
        done: Cell::new(0),
        failure: RefCell::default(),
    });
    for _ in 1..at_once {
        drop(spawn(calls.clone().run()));
    }
    let ahead = calls.callers.len() * CALLS_AHEAD;
    calls.until(ahead, load.warm_up.as_secs_f64()).await?;
    let (done, seconds) = calls.until(0, load.seconds.as_secs_f64()).await?;
    let line = Line {
        messages: done,
        seconds,
        messages_per_s: done as f64 / seconds,
        total_messages: calls.done.get(),
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}
