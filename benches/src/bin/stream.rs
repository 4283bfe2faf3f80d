//! One way at full speed: the client sends messages, one write each; the server counts and checks.
//!
//! The server measures, since only what has arrived counts: it leaves out the warm-up, stops at
//! EOF, and sends its count back to the client, which prints it.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use benches::socket::{Listener, Socket};
use benches::{Cli, Load, Outcome, Role};
use clap::Parser;
use serde::{Deserialize, Serialize};

/// Bytes between two looks at the clock, on both sides: 25 ns each would show at 64 B messages.
const CLOCK_EVERY: u64 = 64 << 10;
/// The server checks the number that opens every so many'th message.
const CHECK_EVERY: u64 = 64;
const READ_BUFFER: usize = 256 << 10;

/// The server's count, sent back to the client.
#[derive(Serialize, Deserialize)]
struct Count {
    bytes: u64,
    seconds: f64,
    total_bytes: u64,
}

#[derive(Serialize)]
struct Line {
    messages: u64,
    bytes: u64,
    seconds: f64,
    messages_per_s: f64,
    bytes_per_s: f64,
    /// Messages with the warm-up's.
    total_messages: u64,
}

fn main() -> Outcome {
    match Cli::parse().role {
        Role::Server { address, .. } => serve(Listener::bind(&address)?.accept()?),
        Role::Client(load) => {
            let line = send(&load)?;
            println!("{}", serde_json::to_string(&line)?);
            Ok(())
        }
    }
}

fn send(load: &Load) -> Result<Line, Box<dyn std::error::Error>> {
    let mut socket = Socket::connect(&load.address)?;
    socket.write_all(&header(load))?;
    send_for(&mut socket, load)?;
    socket.finish()?;
    let mut reply = String::new();
    socket.read_to_string(&mut reply)?;
    let count: Count = serde_json::from_str(&reply).map_err(|_| "the server gave no count")?;
    let messages = count.bytes / load.size;
    Ok(Line {
        messages,
        bytes: count.bytes,
        seconds: count.seconds,
        messages_per_s: messages as f64 / count.seconds,
        bytes_per_s: count.bytes as f64 / count.seconds,
        total_messages: count.total_bytes / load.size,
    })
}

/// Message size and warm-up in nanoseconds.
fn header(load: &Load) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&load.size.to_le_bytes());
    header[8..].copy_from_slice(&(load.warm_up.as_nanos() as u64).to_le_bytes());
    header
}

fn send_for(socket: &mut Socket, load: &Load) -> Outcome {
    let mut message = vec![0x5a; usize::try_from(load.size)?];
    let stamp = message.len().min(8);
    let messages_per_look = (CLOCK_EVERY / load.size).max(1);
    let start = Instant::now();
    let mut number: u64 = 0;
    while start.elapsed() < load.warm_up + load.seconds {
        for _ in 0..messages_per_look {
            message[..stamp].copy_from_slice(&number.to_le_bytes()[..stamp]);
            socket.write_all(&message)?;
            number += 1;
        }
    }
    Ok(())
}

fn serve(mut socket: Socket) -> Outcome {
    let mut header = [0; 16];
    socket.read_exact(&mut header)?;
    let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes);
    let mut check = Check::new(word(0)?)?;
    let mut meter = Meter::new(Duration::from_nanos(word(8)?));
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        let length = socket.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        check.look(&buffer[..length])?;
        meter.add(length as u64);
    }
    let count = meter.finish();
    socket.write_all(serde_json::to_string(&count)?.as_bytes())?;
    Ok(())
}

/// Verifies the numbers of some messages as they pass.
struct Check {
    size: u64,
    /// Stream offset of the next byte.
    offset: u64,
    /// Number of the next message to look at.
    next: u64,
}

impl Check {
    fn new(size: u64) -> Result<Check, &'static str> {
        if size == 0 {
            return Err("messages of no bytes");
        }
        Ok(Check {
            size,
            offset: 0,
            next: 0,
        })
    }

    /// Takes the next bytes of the stream; a number that lies across two reads is left unchecked.
    fn look(&mut self, bytes: &[u8]) -> Outcome {
        let end = self.offset + bytes.len() as u64;
        let stamp = self.size.min(8);
        while self.next * self.size + stamp <= end {
            let start = self.next * self.size;
            if start >= self.offset {
                let at = (start - self.offset) as usize;
                let expected = self.next.to_le_bytes();
                if bytes[at..at + stamp as usize] != expected[..stamp as usize] {
                    return Err(format!("message {} carries another number", self.next).into());
                }
            }
            self.next += CHECK_EVERY;
        }
        self.offset = end;
        Ok(())
    }
}

/// Counts bytes, and starts the measurement when the warm-up is over.
struct Meter {
    warm_up: Duration,
    begun: Instant,
    /// When the warm-up ended, and how many bytes had come by then.
    measured_from: Option<(Instant, u64)>,
    bytes: u64,
    next_look: u64,
}

impl Meter {
    fn new(warm_up: Duration) -> Meter {
        Meter {
            warm_up,
            begun: Instant::now(),
            measured_from: None,
            bytes: 0,
            next_look: 0,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.measured_from.is_none() && self.bytes >= self.next_look {
            self.next_look = self.bytes + CLOCK_EVERY;
            let now = Instant::now();
            if now - self.begun >= self.warm_up {
                self.measured_from = Some((now, self.bytes));
            }
        }
    }

    fn finish(self) -> Count {
        let (start, before) = self.measured_from.unwrap_or((self.begun, 0));
        Count {
            bytes: self.bytes - before,
            seconds: start.elapsed().as_secs_f64(),
            total_bytes: self.bytes,
        }
    }
}
