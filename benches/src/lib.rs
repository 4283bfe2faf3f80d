//! What the small programs behind `ulsock compare` share: the command line, and the two ends.
//!
//! Plain std sockets. Nothing here may know of ulsock: these programs stand for anybody's. Only the
//! bare ring, the chain, the link and the engine, which sockets are held against, are ulsock's own, and the program
//! `messages`, which is written for ulsock.

pub mod chain;
pub mod engine;
pub mod epoll;
pub mod hosts;
pub mod limits;
pub mod line;
pub mod link;
pub mod memory;
pub mod message;
pub mod meter;
pub mod pair;
pub mod ring;
pub mod socket;
pub mod tcp;
pub mod trips;
pub mod unix;
pub mod watch;

use std::error::Error;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

pub type Outcome = Result<(), Box<dyn Error>>;

#[derive(Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    pub role: Role,
}

#[derive(Subcommand)]
pub enum Role {
    /// Serve until the clients have gone, then exit; a TCP port is printed on stdout
    Server {
        /// PORT (on 127.0.0.1), HOST:PORT (port 0 lets the system choose), unix:PATH, unix:@NAME (abstract), ring:PATH or chain:HOST:PATH
        address: String,
        /// How to wait for several connections, where the program does that
        #[arg(long, value_enum, default_value = "epoll")]
        wait: watch::Way,
    },
    /// Connect to a server, measure, print one line of JSON
    Client(Load),
}

/// What a client does, and for how long.
#[derive(Args)]
pub struct Load {
    /// HOST:PORT of the server, unix:PATH, unix:@NAME (abstract), ring:PATH or chain:HOST:PATH
    pub address: String,
    /// Bytes per message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub size: u64,
    /// Connections at the same time, where the program can have several
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub connections: u64,
    /// Seconds to measure
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub seconds: Duration,
    /// Seconds that run before the measurement and are left out of it
    #[arg(long, default_value = "0.05", value_parser = seconds)]
    pub warm_up: Duration,
    /// Round trips per second after the warm-up, where the program can pace them; 0: one after the other
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub rate: u32,
}

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(value).map_err(|error| error.to_string())
}
