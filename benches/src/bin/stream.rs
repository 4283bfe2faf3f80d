//! One way at full speed: the client sends messages, one write each; the server counts and checks.
//!
//! The server measures, since only what has arrived counts: it leaves out the warm-up, and sends its
//! count back when its time is over. The client goes on until then, however late the server was let
//! run, and prints it.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use benches::meter::{CLOCK_EVERY, Count, Line, Meter};
use benches::socket::{Listener, Socket};
use benches::{Cli, Load, Outcome, Role};
use clap::Parser;

/// The server checks the number that opens every so many'th message.
const CHECK_EVERY: u64 = 64;
const READ_BUFFER: usize = 256 << 10;

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
    let (total_messages, mut reply) = send_until_counted(&mut socket, load)?;
    socket.finish()?;
    socket.read_to_end(&mut reply)?;
    let count: Count = serde_json::from_slice(&reply).map_err(|_| "the server gave no count")?;
    Ok(Line::new(&count, load.size, total_messages))
}

/// Message size; warm-up and measurement in nanoseconds.
fn header(load: &Load) -> [u8; 24] {
    let mut header = [0; 24];
    let nanos = |time: Duration| time.as_nanos() as u64;
    let words = [load.size, nanos(load.warm_up), nanos(load.seconds)];
    for (place, word) in header.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// Returns how many were sent, and the beginning of the server's count. It is looked for only when it is
/// due.
fn send_until_counted(
    socket: &mut Socket,
    load: &Load,
) -> Result<(u64, Vec<u8>), Box<dyn std::error::Error>> {
    let mut message = vec![0x5a; usize::try_from(load.size)?];
    let stamp = message.len().min(8);
    let messages_per_look = (CLOCK_EVERY / load.size).max(1);
    let start = Instant::now();
    let mut number: u64 = 0;
    let mut reply = Vec::new();
    while reply.is_empty() {
        for _ in 0..messages_per_look {
            message[..stamp].copy_from_slice(&number.to_le_bytes()[..stamp]);
            socket.write_all(&message)?;
            number += 1;
        }
        if start.elapsed() >= load.warm_up + load.seconds {
            socket.read_what_is_there(&mut reply)?;
        }
    }
    Ok((number, reply))
}

fn serve(mut socket: Socket) -> Outcome {
    let mut header = [0; 24];
    socket.read_exact(&mut header)?;
    let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes);
    let mut check = Check::new(word(0)?)?;
    let nanos = |at: usize| word(at).map(Duration::from_nanos);
    let mut meter = Meter::new(nanos(8)?, nanos(16)?);
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        let length = socket.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        check.look(&buffer[..length])?;
        if let Some(count) = meter.add(length as u64) {
            socket.write_all(serde_json::to_string(&count)?.as_bytes())?;
        }
    }
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
