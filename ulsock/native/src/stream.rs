//! A stream whose calls wait.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use crate::in_place::{self, Copied, InPlaceError, Room, Stream, View};
use crate::socket::{Socket, each};

/// A connection, as `std::net::TcpStream` has it.
#[derive(Debug)]
pub struct TcpStream {
    socket: Socket,
    spare: Vec<u8>,
}

impl TcpStream {
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<TcpStream> {
        each(to, |address| {
            let socket = Socket::new(address, SocketFlags::empty())?;
            socket.connect(address)?;
            Ok(TcpStream::accepted(socket))
        })
    }

    pub(crate) fn accepted(socket: Socket) -> TcpStream {
        TcpStream {
            socket,
            spare: Vec::new(),
        }
    }

    /// Bytes stay where they are.
    pub fn peek(&self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(room, RecvFlags::PEEK)
    }

    /// Room for `len` bytes, in the ring if it has so much: what is written there and committed is sent without a copy.
    ///
    /// It never waits; [`Room::commit`] waits if the room is a buffer of the stream's own and the other end does not read.
    pub fn reserve(&mut self, len: usize) -> Room<'_, TcpStream> {
        Room::new(self, len)
    }

    /// What has come, where it is: waits for the first byte, or for the end.
    pub fn peek_in_place(&mut self) -> io::Result<View<'_, TcpStream>> {
        let mut stream = self;
        loop {
            stream = match View::of_ring(stream) {
                Ok(view) => return Ok(view),
                Err(stream) => stream,
            };
            // One byte, because what comes now may come by the ring.
            match stream.peek(&mut [0]) {
                Ok(0) => return Ok(View::shown(stream, Copied::default())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            stream = match View::of_ring(stream) {
                Ok(view) => return Ok(view),
                Err(stream) => stream,
            };
            match in_place::show(&stream.socket, &mut stream.spare) {
                Ok(copy) => return Ok(View::shown(stream, copy)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    pub fn set_nodelay(&self, yes: bool) -> io::Result<()> {
        self.socket.set_nodelay(yes)
    }

    /// How long a read waits; then its error is `WouldBlock`, as the kernel has it.
    pub fn set_read_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(Timeout::Recv, after)
    }

    /// How long a write waits.
    pub fn set_write_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(Timeout::Send, after)
    }

    /// With a time of zero, closing resets the connection.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket.set_linger(time)
    }

    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.nodelay()
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn spare(&mut self) -> &mut Vec<u8> {
        &mut self.spare
    }
}

impl Room<'_, TcpStream> {
    /// Sends the first `n` bytes, all of them. Those that were not written are unspecified.
    pub fn commit(mut self, n: usize) -> Result<(), InPlaceError> {
        if !self.publish(n)? {
            (&*self.stream).write_all(&self.own()[..n])?;
        }
        Ok(())
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(room, RecvFlags::empty())
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes, SendFlags::empty())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        (&*self).read(room)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
