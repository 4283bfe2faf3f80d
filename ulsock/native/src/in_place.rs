//! Bytes without a copy: a program writes what it sends into the ring itself, and reads what has come where it is.
//!
//! The other process shares the ring, and may be hostile: so neither room nor view is ever a slice, and bytes are copied
//! in and out, in pieces as small as the program likes. Where kernel TCP carries the connection, or the ring has no room
//! for so many, the same calls work on a buffer of the stream's own.

use std::fmt;
use std::io;

use rustix::net::RecvFlags;
use sockets::api::{self, Committed, RingRoom, RingView};

use crate::socket::Socket;
use crate::start::generation;

/// What a view of kernel TCP's bytes shows at most.
const MOST_SHOWN: usize = 64 << 10;

/// What rooms and views need of a stream.
pub trait Stream {
    fn socket(&self) -> &Socket;
    /// A buffer that is kept between uses.
    fn spare(&mut self) -> &mut Vec<u8>;
}

/// A place that is not in the room or the view: nothing was copied, sent or taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// What was asked for ends here.
    pub end: usize,
    /// There are so many bytes.
    pub len: usize,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of {} bytes", self.end, self.len)
    }
}

impl std::error::Error for OutOfRange {}

/// Why bytes were not sent from a room, or not taken from a view.
#[derive(Debug)]
pub enum InPlaceError {
    /// More than the room or the view has. Nothing has happened.
    OutOfRange(OutOfRange),
    /// This process is a child of the one that has reserved the room. Nothing has happened.
    Forked,
    /// Another process, which shares the connection since a fork, has sent on it since the room was reserved, perhaps into
    /// the room. Nothing of the room was sent.
    Overtaken,
    /// The connection has failed.
    Connection(io::Error),
}

impl fmt::Display for InPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InPlaceError::OutOfRange(range) => range.fmt(f),
            InPlaceError::Forked => f.write_str("the room belongs to the parent process"),
            InPlaceError::Overtaken => f.write_str("another process has sent meanwhile"),
            InPlaceError::Connection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InPlaceError {}

impl From<io::Error> for InPlaceError {
    fn from(error: io::Error) -> InPlaceError {
        InPlaceError::Connection(error)
    }
}

impl From<InPlaceError> for io::Error {
    fn from(error: InPlaceError) -> io::Error {
        match error {
            InPlaceError::Connection(error) => error,
            InPlaceError::OutOfRange(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
            InPlaceError::Overtaken => io::Error::other(error),
            InPlaceError::Forked => io::Error::new(io::ErrorKind::Unsupported, error),
        }
    }
}

/// Checks that `at` and the `count` bytes behind it are among `len`.
fn check(at: usize, count: usize, len: usize) -> Result<(), OutOfRange> {
    let end = at.saturating_add(count);
    if end > len {
        return Err(OutOfRange { end, len });
    }
    Ok(())
}

/// Room for bytes that are to be sent: see [`TcpStream::reserve`](crate::TcpStream::reserve).
///
/// As [`io::Write`] it is filled from its beginning on; [`Self::write_at`] writes anywhere. What is neither written nor
/// committed is not sent, and a room that is dropped sends nothing.
pub struct Room<'a, S: Stream> {
    pub(crate) stream: &'a mut S,
    ring: Option<RingRoom>,
    /// Without a ring.
    own: Vec<u8>,
    len: usize,
    filled: usize,
    /// The process that has reserved it.
    generation: u32,
}

impl<'a, S: Stream> Room<'a, S> {
    pub(crate) fn new(stream: &'a mut S, len: usize) -> Room<'a, S> {
        let ring = stream.socket().reserve(len);
        let mut own = std::mem::take(stream.spare());
        if ring.is_none() {
            own.clear();
            own.resize(len, 0);
        }
        Room {
            stream,
            ring,
            own,
            len,
            filled: 0,
            generation: generation(),
        }
    }

    /// So many bytes as were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is in the ring, and not in a buffer of the stream's own.
    pub fn is_in_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// How many bytes have been written from the beginning on, by [`io::Write`].
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Writes all of `bytes` at byte `at`.
    #[inline]
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        check(at, bytes.len(), self.len)?;
        match &mut self.ring {
            // A child of fork must not write where its parent does.
            Some(ring) if ring.is_ours() => ring.write(at, bytes),
            Some(_) => {}
            None => self.own[at..at + bytes.len()].copy_from_slice(bytes),
        }
        Ok(())
    }

    /// Publishes the first `n` bytes in the ring; `false` if they have to be sent from the buffer, where they are then.
    pub(crate) fn publish(&mut self, n: usize) -> Result<bool, InPlaceError> {
        check(0, n, self.len).map_err(InPlaceError::OutOfRange)?;
        if self.generation != generation() {
            return Err(InPlaceError::Forked);
        }
        let Some(ring) = &self.ring else {
            return Ok(false);
        };
        match api::commit(ring, n).map_err(io::Error::from)? {
            Committed::Sent => return Ok(true),
            Committed::Overtaken => return Err(InPlaceError::Overtaken),
            Committed::Refused => {}
        }
        self.own.clear();
        self.own.resize(n, 0);
        ring.read(0, &mut self.own);
        self.ring = None;
        Ok(false)
    }

    pub(crate) fn own(&self) -> &[u8] {
        &self.own
    }
}

impl<S: Stream> io::Write for Room<'_, S> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.len - self.filled);
        self.write_at(self.filled, &bytes[..n])
            .map_err(|range| io::Error::new(io::ErrorKind::InvalidInput, range))?;
        self.filled += n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Stream> fmt::Debug for Room<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("len", &self.len)
            .field("filled", &self.filled)
            .field("is_in_ring", &self.is_in_ring())
            .finish()
    }
}

impl<S: Stream> Drop for Room<'_, S> {
    fn drop(&mut self) {
        *self.stream.spare() = std::mem::take(&mut self.own);
    }
}

/// What has come and is not taken yet: see [`TcpStream::peek_in_place`](crate::TcpStream::peek_in_place). Without any bytes
/// it is the end of the stream.
///
/// As [`io::Read`] it is read from its beginning on; [`Self::read_at`] reads anywhere. Only [`Self::consume`] takes bytes. A
/// hostile peer can change bytes that are in the ring: what was checked is what was copied, not what is read again.
pub struct View<'a, S: Stream> {
    stream: &'a mut S,
    ring: Option<RingView>,
    own: Vec<u8>,
    len: usize,
    read: usize,
}

impl<'a, S: Stream> View<'a, S> {
    /// What the ring has; the stream again if that is nothing.
    pub(crate) fn of_ring(stream: &'a mut S) -> Result<View<'a, S>, &'a mut S> {
        match stream.socket().view() {
            Some(ring) => Ok(View {
                len: ring.len(),
                ring: Some(ring),
                own: std::mem::take(stream.spare()),
                stream,
                read: 0,
            }),
            None => Err(stream),
        }
    }

    /// A copy of what is next.
    pub(crate) fn shown(stream: &'a mut S, copy: Copied) -> View<'a, S> {
        View {
            stream,
            ring: None,
            own: copy.own,
            len: copy.len,
            read: 0,
        }
    }

    /// How many bytes are there.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is in the ring, and not in a buffer of the stream's own.
    pub fn is_in_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Fills `room` with what is at byte `at`.
    #[inline]
    pub fn read_at(&self, at: usize, room: &mut [u8]) -> Result<(), OutOfRange> {
        check(at, room.len(), self.len)?;
        match &self.ring {
            Some(ring) => ring.read(at, room),
            None => room.copy_from_slice(&self.own[at..at + room.len()]),
        }
        Ok(())
    }

    /// Takes the first `n` bytes off the stream; the others stay there.
    pub fn consume(mut self, n: usize) -> Result<(), InPlaceError> {
        check(0, n, self.len).map_err(InPlaceError::OutOfRange)?;
        let taken = match &self.ring {
            Some(ring) => api::consume(ring, n).map_err(io::Error::from)?,
            None => false,
        };
        if !taken {
            self.ring = None;
            take(self.stream.socket(), &mut self.own, n)?;
        }
        Ok(())
    }
}

/// Takes `n` bytes that have come off the stream, wherever they are.
fn take(socket: &Socket, room: &mut Vec<u8>, n: usize) -> io::Result<()> {
    room.resize(room.len().max(n.min(MOST_SHOWN)), 0);
    let mut left = n;
    while left > 0 {
        let most = left.min(room.len());
        match socket.recv(&mut room[..most], RecvFlags::DONTWAIT) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(took) => left -= took,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // They were there.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The first `len` bytes are what is next in the stream.
#[derive(Default)]
pub(crate) struct Copied {
    own: Vec<u8>,
    len: usize,
}

/// Copies what is next into the stream's own buffer, and leaves it there.
pub(crate) fn show(socket: &Socket, spare: &mut Vec<u8>) -> io::Result<Copied> {
    spare.resize(spare.len().max(MOST_SHOWN), 0);
    let len = socket.recv(spare, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    let own = std::mem::take(spare);
    Ok(Copied { own, len })
}

impl<S: Stream> io::Read for View<'_, S> {
    #[inline]
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let n = room.len().min(self.len - self.read);
        self.read_at(self.read, &mut room[..n])
            .map_err(|range| io::Error::new(io::ErrorKind::InvalidInput, range))?;
        self.read += n;
        Ok(n)
    }
}

impl<S: Stream> fmt::Debug for View<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("len", &self.len)
            .field("is_in_ring", &self.is_in_ring())
            .finish()
    }
}

impl<S: Stream> Drop for View<'_, S> {
    fn drop(&mut self) {
        *self.stream.spare() = std::mem::take(&mut self.own);
    }
}
