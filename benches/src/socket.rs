//! A stream of either kind, TCP or Unix socket, bare ring or bare chain, and how the programs open one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::{chain, ring, unix};

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// The two ends of a ring meet at a Unix socket.
    Ring(UnixListener),
    /// So do those of a chain; with the host's address.
    Chain(UnixListener, String),
}

pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Ring(ring::RingEnd),
    Chain(chain::ChainEnd),
}

impl Listener {
    /// Listens, and prints the port if there is one.
    pub fn bind(address: &str) -> io::Result<Listener> {
        if let Some(name) = unix::name_of(address) {
            return unix::listen(name).map(Listener::Unix);
        }
        if let Some(path) = address.strip_prefix("ring:") {
            return UnixListener::bind(path).map(Listener::Ring);
        }
        if let Some((host, path)) = chain_address(address) {
            let listener = UnixListener::bind(path)?;
            return Ok(Listener::Chain(listener, host.to_owned()));
        }
        let listener = match address.parse::<u16>() {
            Ok(port) => TcpListener::bind(("127.0.0.1", port))?,
            Err(_) => TcpListener::bind(address)?,
        };
        let mut stdout = io::stdout();
        writeln!(stdout, "{}", listener.local_addr()?.port())?;
        stdout.flush()?;
        Ok(Listener::Tcp(listener))
    }

    pub fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => Socket::tcp(listener.accept()?.0),
            Listener::Unix(listener) => Ok(Socket::Unix(listener.accept()?.0)),
            Listener::Ring(listener) => {
                ring::RingEnd::accept(listener.accept()?.0).map(Socket::Ring)
            }
            Listener::Chain(listener, host) => {
                chain::ChainEnd::open(host, &listener.accept()?.0, true).map(Socket::Chain)
            }
        }
    }
}

impl Socket {
    pub fn connect(address: &str) -> io::Result<Socket> {
        if let Some((host, path)) = chain_address(address) {
            let peer = UnixStream::connect(path)?;
            return chain::ChainEnd::open(host, &peer, false).map(Socket::Chain);
        }
        if let Some(name) = unix::name_of(address) {
            return unix::connect(name).map(Socket::Unix);
        }
        match address.strip_prefix("ring:") {
            Some(path) => ring::RingEnd::connect(UnixStream::connect(path)?).map(Socket::Ring),
            None => Socket::tcp(TcpStream::connect(address)?),
        }
    }

    fn tcp(socket: TcpStream) -> io::Result<Socket> {
        socket.set_nodelay(true)?;
        Ok(Socket::Tcp(socket))
    }

    /// No more will be sent.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
            Socket::Ring(end) => {
                end.finish();
                Ok(())
            }
            Socket::Chain(end) => {
                end.finish();
                Ok(())
            }
        }
    }
}

impl Socket {
    /// Takes what has come, without waiting for it.
    pub fn read_what_is_there(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let mut buffer = [0; 256];
        self.set_nonblocking(true)?;
        let came = match self {
            Socket::Ring(end) => end.pull(&mut buffer),
            _ => self.read(&mut buffer),
        };
        self.set_nonblocking(false)?;
        match came {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            came => {
                into.extend_from_slice(&buffer[..came?]);
                Ok(())
            }
        }
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_nonblocking(on),
            Socket::Unix(socket) => socket.set_nonblocking(on),
            Socket::Ring(_) | Socket::Chain(_) => Ok(()),
        }
    }
}

/// The host and the path of `chain:HOST:PATH`.
fn chain_address(address: &str) -> Option<(&str, &str)> {
    address.strip_prefix("chain:")?.split_once(':')
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
            Socket::Ring(end) => end.read(buffer),
            Socket::Chain(end) => end.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(buffer),
            Socket::Unix(socket) => socket.write(buffer),
            Socket::Ring(end) => end.write(buffer),
            Socket::Chain(end) => end.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
