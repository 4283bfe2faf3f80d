//! What `pingpong` and `stream` share: their command line and their two ends of one connection.
//!
//! Plain std sockets. Nothing here may know of ulsock: these programs stand for anybody's.

use std::error::Error;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
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
    /// Serve one client, then exit; the port is printed on stdout
    Server {
        /// PORT (on 127.0.0.1) or HOST:PORT; port 0 lets the system choose
        address: String,
    },
    /// Connect to a server, measure, print one line of JSON
    Client(Load),
}

/// What a client does, and for how long.
#[derive(Args)]
pub struct Load {
    /// HOST:PORT of the server
    pub address: String,
    /// Bytes per message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub size: u64,
    /// Seconds to measure
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub seconds: Duration,
    /// Seconds that run before the measurement and are left out of it
    #[arg(long, default_value = "0.05", value_parser = seconds)]
    pub warm_up: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(value).map_err(|error| error.to_string())
}

/// Listens, prints the port, and returns the first client.
pub fn accept_one(address: &str) -> io::Result<TcpStream> {
    let listener = match address.parse::<u16>() {
        Ok(port) => TcpListener::bind(("127.0.0.1", port))?,
        Err(_) => TcpListener::bind(address)?,
    };
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?.port())?;
    stdout.flush()?;
    let (socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Connects to a server.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
