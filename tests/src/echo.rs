//! Echoing, and checking an echo, as several test programs do it.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::pattern;
use crate::rng::Rng;

/// Sends everything back until EOF, at once.
pub fn serve(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

/// Waits for each whole message of `length` bytes and sends it back in two pieces, when Nagle's algorithm
/// lets them go, until EOF.
pub fn serve_whole(mut stream: &TcpStream, length: usize) -> io::Result<()> {
    let mut message = vec![0; length];
    loop {
        match stream.read_exact(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        for piece in message.chunks(length.div_ceil(2)) {
            stream.write_all(piece)?;
        }
    }
}

/// Receives and sends back exactly one message of `length` bytes.
pub fn serve_one(mut stream: &TcpStream, length: usize) -> io::Result<()> {
    let mut buffer = vec![0; length];
    stream.read_exact(&mut buffer)?;
    stream.write_all(&buffer)
}

/// One end that sends messages of a pattern and checks that they come back.
pub struct Caller<'a> {
    stream: &'a TcpStream,
    direction: u8,
    position: u64,
    /// Sends of a message.
    pieces: usize,
}

impl<'a> Caller<'a> {
    /// Calls over `stream`, with the pattern of `direction`.
    pub fn new(stream: &'a TcpStream, direction: u8) -> Self {
        Self {
            stream,
            direction,
            position: 0,
            pieces: 1,
        }
    }

    /// Sends each message in so many pieces.
    pub fn in_pieces(self, pieces: usize) -> Self {
        Self { pieces, ..self }
    }

    /// Sends `length` bytes, receives as many, and panics unless they are the same.
    pub fn round_trip(&mut self, length: usize) -> io::Result<()> {
        let mut message = vec![0; length];
        pattern::fill(self.direction, self.position, &mut message);
        for piece in message.chunks(length.div_ceil(self.pieces).max(1)) {
            self.stream.write_all(piece)?;
        }
        message.fill(0);
        self.stream.read_exact(&mut message)?;
        pattern::check(self.direction, self.position, &message)
            .unwrap_or_else(|mismatch| panic!("echo: {mismatch}"));
        self.position += length as u64;
        Ok(())
    }

    /// `rounds` round trips of random lengths up to `max`.
    pub fn round_trips(&mut self, rounds: usize, max: usize, rng: &mut Rng) -> io::Result<()> {
        (0..rounds).try_for_each(|_| self.round_trip(rng.size(max)))
    }
}
