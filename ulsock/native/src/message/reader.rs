//! What has come on a stream and is not taken yet. Small frames are received many at a time; of a long one only the
//! beginning, so that its handler can receive the rest into its own buffers.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll};

use super::frame::{Data, HEADER};
use crate::future::TcpStream;

/// Received ahead of small frames.
const AHEAD: usize = 16 << 10;
/// Received ahead where frames are long.
const TASTE: usize = 256;
/// A long frame.
const LONG: usize = 4 << 10;

thread_local! {
    /// Idle peers have none: they share this one.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The last frame was long.
    long: bool,
}

impl Reader {
    pub fn available(&self) -> usize {
        self.end - self.start
    }

    /// The next `N` bytes, if they are there.
    pub fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes[self.start..self.end].first_chunk().copied()?;
        self.start += N;
        Some(bytes)
    }

    /// After the header of a frame.
    pub fn begins(&mut self, data: &Data) {
        self.long = data.len >= LONG;
    }

    /// The next bytes of a frame, at most `most`.
    pub fn front(&self, most: usize) -> &[u8] {
        &self.bytes[self.start..self.end.min(self.start + most)]
    }

    pub fn skip(&mut self, n: usize) {
        self.start += n;
    }

    /// Receives more, at least what a header needs; little of a long frame `for_waiter`, a handler that will receive the
    /// rest by itself. `Ready(0)` is the end of the stream.
    pub fn poll_fill(
        &mut self,
        stream: &TcpStream,
        for_waiter: bool,
        task: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.is_empty() {
            self.bytes = SPARE.take();
            self.bytes.resize(AHEAD, 0);
        }
        let most = match self.long && for_waiter {
            true => (self.end + HEADER).max(TASTE),
            false => AHEAD,
        };
        let received = stream.poll_recv(task, &mut self.bytes[self.end..most]);
        match &received {
            Poll::Ready(Ok(n)) => self.end += n,
            Poll::Pending if self.end == 0 => drop(SPARE.replace(std::mem::take(&mut self.bytes))),
            _ => {}
        }
        received
    }
}
