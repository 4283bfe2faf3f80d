//! Many connections between two processes with one thread each: the client asks on a random one each
//! time, the server waits for all of them at once, by epoll, poll or select.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use benches::message::Asker;
use benches::trips::Trips;
use benches::watch::{Watch, Way};
use benches::{Cli, Load, Outcome, Role, limits};
use clap::Parser;

/// Round trips on each connection before the measurement: enough to be offered, claimed and switched.
const ROUNDS: usize = 24;

fn main() -> Outcome {
    limits::raise_open_files()?;
    match Cli::parse().role {
        Role::Server { address, wait } => Server::new(&address, wait)?.serve(),
        Role::Client(load) => ask(&load),
    }
}

fn ask(load: &Load) -> Outcome {
    let connect = |_| Asker::connect(&load.address, load.size);
    let mut askers: Vec<Asker> = (0..load.connections)
        .map(connect)
        .collect::<Result<_, _>>()?;
    let mut trips = Trips::new()?;
    for _ in 0..ROUNDS {
        // All at once: one by one it would take the older ways of waiting long.
        askers.iter_mut().try_for_each(Asker::ask)?;
        askers.iter_mut().try_for_each(Asker::hear)?;
        trips.total += load.connections;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    trips.measure(load.warm_up, load.seconds, || {
        let chosen = random.below(askers.len());
        askers[chosen].round_trip()
    })?;
    trips.print()
}

/// Xorshift: the same connections in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

struct Server {
    watch: Watch,
    listener: TcpListener,
    clients: HashMap<RawFd, Client>,
}

/// A connection; what has come of the message that it is in.
struct Client {
    socket: TcpStream,
    size: Option<usize>,
    held: Vec<u8>,
}

impl Server {
    fn new(address: &str, way: Way) -> Result<Server, Box<dyn std::error::Error>> {
        let benches::socket::Listener::Tcp(listener) = benches::socket::Listener::bind(address)?
        else {
            return Err("TCP alone".into());
        };
        listener.set_nonblocking(true)?;
        let mut watch = Watch::new(way)?;
        watch.add(listener.as_raw_fd())?;
        let clients = HashMap::new();
        Ok(Server {
            watch,
            listener,
            clients,
        })
    }

    /// Until the last client has gone.
    fn serve(mut self) -> Outcome {
        let mut ready = Vec::new();
        let mut came = false;
        while !came || !self.clients.is_empty() {
            self.watch.wait(&mut ready)?;
            for &fd in &ready {
                if fd == self.listener.as_raw_fd() {
                    self.accept()?;
                    came = true;
                } else if let Some(client) = self.clients.get_mut(&fd)
                    && !client.serve()?
                {
                    self.watch.remove(fd);
                    self.clients.remove(&fd);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Outcome {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            self.watch.add(socket.as_raw_fd())?;
            let (size, held) = (None, Vec::new());
            self.clients
                .insert(socket.as_raw_fd(), Client { socket, size, held });
        }
    }
}

impl Client {
    /// Reads once and answers what is whole; false at the end. Messages are small: answers fit.
    fn serve(&mut self) -> Result<bool, Box<dyn std::error::Error>> {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => self.held.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        if self.size.is_none()
            && let Some((size, rest)) = self.held.split_first_chunk::<8>()
        {
            self.size = Some(usize::try_from(u64::from_le_bytes(*size))?);
            self.held = rest.to_vec();
        }
        while let Some(size) = self.size.filter(|size| self.held.len() >= *size) {
            self.socket.write_all(&self.held[..size])?;
            self.held.drain(..size);
        }
        Ok(true)
    }
}
