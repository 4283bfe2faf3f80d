//! What one send and one receive cost when they need not wait: both ends are in this thread, over TCP
//! or as a bare ring. Some messages are sent, then received, again and again; prints one line of JSON.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use benches::pair::Pair;
use benches::{ring, seconds};
use clap::Parser;
use serde::Serialize;

/// Messages between two looks at the clock, as far as they fit into the smallest buffers.
const BATCH: usize = 32;
const ROOM: usize = 16 << 10;

#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Bytes per message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=16 << 10))]
    size: u64,
    /// Seconds to measure
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    /// Seconds that run before the measurement and are left out of it
    #[arg(long, default_value = "0.05", value_parser = seconds)]
    warm_up: Duration,
    /// A bare ring in place of TCP
    #[arg(long)]
    ring: bool,
}

#[derive(Default, Serialize)]
struct Line {
    send_us: f64,
    recv_us: f64,
    /// Messages with the warm-up's.
    total_messages: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let line = match cli.ring {
        true => {
            let (from, to) = ring::pair()?;
            measure(&cli, from, to)?
        }
        false => {
            let Pair { client, server } = Pair::connect(&TcpListener::bind("127.0.0.1:0")?)?;
            measure(&cli, client, server)?
        }
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}

fn measure(cli: &Cli, mut from: impl Write, mut to: impl Read) -> Result<Line, Box<dyn Error>> {
    let mut message = vec![7; usize::try_from(cli.size)?];
    let batch = (ROOM / message.len()).clamp(1, BATCH) as u32;
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let (mut measured, mut total) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < cli.warm_up + cli.seconds {
        let start = Instant::now();
        for _ in 0..batch {
            from.write_all(&message)?;
        }
        let sent = Instant::now();
        for _ in 0..batch {
            to.read_exact(&mut message)?;
        }
        let came = Instant::now();
        total += u64::from(batch);
        if begun.elapsed() >= cli.warm_up {
            sending += sent - start;
            receiving += came - sent;
            measured += batch;
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(measured);
    Ok(Line {
        send_us: each(sending),
        recv_us: each(receiving),
        total_messages: total,
    })
}
