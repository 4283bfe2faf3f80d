//! Messages that can be told apart, and the server's side of a connection that echoes them.

use std::io::{ErrorKind, Read, Write};

use crate::Outcome;
use crate::socket::Socket;

/// A client's end of a connection, and the message that it sends.
pub struct Asker {
    socket: Socket,
    message: Vec<u8>,
    echo: Vec<u8>,
    trips: u64,
}

impl Asker {
    /// Connects, and tells the server the size of the messages.
    pub fn connect(address: &str, size: u64) -> Result<Asker, Box<dyn std::error::Error>> {
        let mut socket = Socket::connect(address)?;
        socket.write_all(&size.to_le_bytes())?;
        let size = usize::try_from(size)?;
        Ok(Asker {
            socket,
            message: vec![0; size],
            echo: vec![0; size],
            trips: 0,
        })
    }

    pub fn round_trip(&mut self) -> Outcome {
        self.ask()?;
        self.hear()
    }

    /// The first half of a round trip.
    pub fn ask(&mut self) -> Outcome {
        self.trips += 1;
        stamp(&mut self.message, self.trips);
        Ok(self.socket.write_all(&self.message)?)
    }

    /// The second half.
    pub fn hear(&mut self) -> Outcome {
        self.socket.read_exact(&mut self.echo)?;
        if ends(&self.echo) != ends(&self.message) {
            return Err(format!("round trip {} came back with other bytes", self.trips).into());
        }
        Ok(())
    }
}

/// Learns the message size from the first eight bytes, then echoes whole messages until EOF.
pub fn echo(mut socket: Socket) -> Outcome {
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
