//! Frames on the stream, two bytes of length and so many bytes, and what of them has not passed yet.

use std::io::{self, Read, Write};

use super::Closed;
use super::noise::FRAME;

const HEADER: usize = 2;

/// What one call reads at most.
const GULP: usize = 16 << 10;

/// What has arrived: at most one gulp, and the part of a frame that the last one ended with.
#[derive(Default)]
pub(super) struct Inbound {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbound {
    /// Reads what is there, up to a gulp; whether the stream has ended.
    pub fn fill(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let mut gulp = [0; GULP];
        match stream.read(&mut gulp) {
            Ok(0) => Ok(true),
            Ok(count) => {
                self.bytes.extend_from_slice(&gulp[..count]);
                Ok(false)
            }
            Err(error) => not_now(error).map(|()| false),
        }
    }

    /// The next frame, if it is whole. Its length is judged before its bytes are waited for.
    pub fn next(&mut self, expected: impl FnOnce(usize) -> bool) -> Result<Option<&[u8]>, Closed> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*header));
        if !expected(length) {
            return Err(Closed::Length(length));
        }
        let frame = rest.get(..length);
        self.taken += frame.map_or(0, |frame| HEADER + frame.len());
        Ok(frame)
    }
}

/// What has not been written yet.
#[derive(Default)]
pub(super) struct Outbound {
    bytes: Vec<u8>,
    written: usize,
}

impl Outbound {
    pub fn push(&mut self, frame: &[u8]) {
        debug_assert!(frame.len() <= FRAME);
        self.bytes
            .extend_from_slice(&(frame.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(frame);
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes what goes without waiting.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match stream.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) => {
                    self.forget();
                    return not_now(error);
                }
            }
        }
        self.forget();
        Ok(())
    }

    /// As somebody on the way could do it.
    #[cfg(test)]
    pub fn flip(&mut self, byte: usize) {
        self.bytes[self.written + byte] ^= 1;
    }

    #[cfg(test)]
    pub fn repeat(&mut self) {
        self.bytes.extend_from_within(self.written..);
    }

    fn forget(&mut self) {
        self.bytes.drain(..self.written);
        self.written = 0;
    }
}

/// A stream that is not ready, or not connected yet, is no error.
fn not_now(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}
