//! Round trips: the client sends a message, the server sends it back, one at a time.
//!
//! Every trip is timed with one clock reading (the end of a trip is the start of the next), which
//! costs some 25 ns a trip on either carrier and gives true percentiles, unlike timing batches.
#![forbid(unsafe_code)]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Cli, Load, Outcome, Role};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer trips count as this long in the percentiles.
const LONGEST_NANOS: u64 = 60_000_000_000;

#[derive(Serialize)]
struct Line {
    messages: u64,
    seconds: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    /// Round trips with the warm-up's.
    total_messages: u64,
}

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address } => serve(common::accept_one(&address)?),
        Role::Client(load) => {
            let line = Client::new(&load)?.measure(&load)?;
            println!("{}", serde_json::to_string(&line)?);
            Ok(())
        }
    }
}

/// Learns the message size from the first eight bytes, then echoes whole messages until EOF.
fn serve(mut socket: TcpStream) -> Outcome {
    let mut size = [0; 8];
    socket.read_exact(&mut size)?;
    let mut message = vec![0; usize::try_from(u64::from_le_bytes(size))?];
    loop {
        match socket.read_exact(&mut message) {
            Ok(()) => socket.write_all(&message)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

struct Client {
    socket: TcpStream,
    message: Vec<u8>,
    echo: Vec<u8>,
    trips: u64,
}

impl Client {
    fn new(load: &Load) -> Result<Client, Box<dyn std::error::Error>> {
        let mut socket = common::connect(&load.address)?;
        socket.write_all(&load.size.to_le_bytes())?;
        let size = usize::try_from(load.size)?;
        Ok(Client {
            socket,
            message: vec![0; size],
            echo: vec![0; size],
            trips: 0,
        })
    }

    fn measure(&mut self, load: &Load) -> Result<Line, Box<dyn std::error::Error>> {
        self.run_for(load.warm_up, |_| ())?;
        let before = self.trips;
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NANOS, 3)?;
        let elapsed = self.run_for(load.seconds, |nanos| histogram.saturating_record(nanos))?;
        let messages = self.trips - before;
        Ok(Line {
            messages,
            seconds: elapsed.as_secs_f64(),
            mean_us: elapsed.as_secs_f64() * 1e6 / messages as f64,
            p50_us: histogram.value_at_quantile(0.50) as f64 / 1e3,
            p99_us: histogram.value_at_quantile(0.99) as f64 / 1e3,
            total_messages: self.trips,
        })
    }

    /// Makes at least one round trip and stops at the first that ends after `length`.
    fn run_for(
        &mut self,
        length: Duration,
        mut record: impl FnMut(u64),
    ) -> Result<Duration, Box<dyn std::error::Error>> {
        let start = Instant::now();
        let mut last = start;
        loop {
            self.round_trip()?;
            let now = Instant::now();
            record((now - last).as_nanos() as u64);
            last = now;
            if now - start >= length {
                return Ok(now - start);
            }
        }
    }

    fn round_trip(&mut self) -> Outcome {
        self.trips += 1;
        stamp(&mut self.message, self.trips);
        self.socket.write_all(&self.message)?;
        self.socket.read_exact(&mut self.echo)?;
        if ends(&self.echo) != ends(&self.message) {
            return Err(format!("round trip {} came back with other bytes", self.trips).into());
        }
        Ok(())
    }
}

/// Puts the trip's number at both ends of the message, so that a stale or shifted echo shows.
fn stamp(message: &mut [u8], number: u64) {
    let bytes = number.to_le_bytes();
    let length = message.len().min(8);
    let last = message.len() - length;
    message[..length].copy_from_slice(&bytes[..length]);
    message[last..].copy_from_slice(&bytes[..length]);
}

/// The two stamps of a message.
fn ends(message: &[u8]) -> (&[u8], &[u8]) {
    let length = message.len().min(8);
    (&message[..length], &message[message.len() - length..])
}
