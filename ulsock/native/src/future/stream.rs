//! A stream whose waits are tasks.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::pollable::{Pollable, is_for_later};
use crate::in_place::{self, Copied, InPlaceError, Room, Stream, View};
use crate::socket::Socket;
use crate::wait::{Direction, Event, Reactor};

/// A connection.
#[derive(Debug)]
pub struct TcpStream {
    pollable: Pollable,
    spare: Vec<u8>,
}

impl TcpStream {
    /// To an address: names are looked up by the caller, for that may take long.
    pub async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::accepted(Socket::new(&to, SocketFlags::NONBLOCK)?);
        match stream.pollable.socket.connect(&to) {
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
                stream.pollable.when(Direction::Out, is_connected).await?;
            }
            done => done?,
        }
        Ok(stream)
    }

    pub(super) fn accepted(socket: Socket) -> TcpStream {
        TcpStream {
            pollable: Pollable::stream(socket),
            spare: Vec::new(),
        }
    }

    /// Some bytes, as soon as there are any; none at the end. Dropped before that, it has taken nothing.
    pub async fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        poll_fn(|task| self.poll_recv(task, room)).await
    }

    /// Fills the room. Dropped before that, it has taken what came first.
    pub async fn read_exact(&self, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            match self.read(room).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => room = &mut room[n..],
            }
        }
        Ok(())
    }

    /// As many of the bytes as there is room for, as soon as there is any. Dropped before that, it has sent nothing.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|task| self.poll_send(task, bytes)).await
    }

    /// All of the bytes. Dropped before that, it has sent the first of them.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.write(bytes).await?..];
        }
        Ok(())
    }

    /// Bytes stay where they are.
    pub async fn peek(&self, room: &mut [u8]) -> io::Result<usize> {
        let peek = |socket: &Socket| socket.recv(room, RecvFlags::PEEK);
        self.pollable.when(Direction::In, peek).await
    }

    /// Room for `len` bytes, in the ring if it has so much: what is written there and committed is sent without a copy.
    pub fn reserve(&mut self, len: usize) -> Room<'_, TcpStream> {
        Room::new(self, len)
    }

    /// What has come, where it is, as soon as there is something, or the end.
    pub async fn peek_in_place(&mut self) -> io::Result<View<'_, TcpStream>> {
        let mut stream = self;
        loop {
            stream = match View::of_ring(stream) {
                Ok(view) => return Ok(view),
                Err(stream) => stream,
            };
            if let Some(copy) = poll_fn(|task| stream.poll_shown(task)).await? {
                return Ok(View::shown(stream, copy));
            }
        }
    }

    /// What is next, in a buffer; `None` if it is in the ring.
    fn poll_shown(&mut self, task: &Context<'_>) -> Poll<io::Result<Option<Copied>>> {
        let TcpStream { pollable, spare } = self;
        let socket = &pollable.socket;
        let mut look = || match socket.view().is_some() {
            true => Ok(None),
            false => in_place::show(socket, spare).map(Some),
        };
        if pollable.is_registered() && socket.has_empty_ring() {
            return pollable.wait(Direction::In, task, |_| look());
        }
        match look() {
            Err(error) if is_for_later(&error) => pollable.wait(Direction::In, task, |_| look()),
            done => Poll::Ready(done),
        }
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.pollable.socket.shutdown(how)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.pollable.socket.local_addr()
    }

    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.pollable.socket.peer_addr()
    }

    pub fn set_nodelay(&self, yes: bool) -> io::Result<()> {
        self.pollable.socket.set_nodelay(yes)
    }

    pub fn nodelay(&self) -> io::Result<bool> {
        self.pollable.socket.nodelay()
    }

    /// With a time of zero, closing resets the connection.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        self.pollable.socket.set_linger(time)
    }

    /// The kernel's socket has bytes that the other host has not acknowledged.
    pub(crate) fn has_unsent(&self) -> bool {
        self.pollable.socket.has_unsent()
    }

    /// The only stream that this reactor waits for.
    pub(crate) fn is_only_one_of(&self, reactor: &Arc<Reactor>) -> bool {
        self.pollable.is_only_stream_of(reactor)
    }

    /// Waits awake for what is under way already. Whether something has come.
    pub(crate) fn wait_briefly(&self) -> bool {
        self.pollable.socket.wait_briefly()
    }

    /// As many of the bytes as there is room for now, perhaps none.
    #[inline]
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.pollable.socket.send(bytes, SendFlags::DONTWAIT) {
            Err(error) if is_for_later(&error) => Ok(0),
            done => done,
        }
    }

    /// A head and a body as one, if a ring takes them at once; else nothing is sent.
    #[inline]
    pub(crate) fn try_send_two(&self, head: &[u8], body: &[u8]) -> bool {
        self.pollable.socket.send_two(head, body)
    }

    /// What has come, if anything has.
    #[inline]
    pub(crate) fn try_recv(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let socket = &self.pollable.socket;
        let received = match self.pollable.is_registered() {
            true => socket.recv_unless_empty(room),
            false => socket.recv(room, RecvFlags::DONTWAIT),
        };
        match received {
            Err(error) if is_for_later(&error) => Ok(None),
            done => done.map(Some),
        }
    }

    #[inline]
    pub(crate) fn poll_recv(&self, task: &Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let socket = &self.pollable.socket;
        let first = match self.pollable.is_registered() {
            true => socket.recv_unless_empty(room),
            false => socket.recv(room, RecvFlags::DONTWAIT),
        };
        match first {
            Err(error) if is_for_later(&error) => {
                self.pollable
                    .wait(Direction::In, task, |event| match event {
                        Event::Plain => socket.recv_unless_empty(room),
                        Event::OfKernel => socket.recv(room, RecvFlags::DONTWAIT),
                    })
            }
            done => Poll::Ready(done),
        }
    }

    #[inline]
    pub(crate) fn poll_send(&self, task: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pollable.poll(Direction::Out, task, |socket| {
            socket.send(bytes, SendFlags::DONTWAIT)
        })
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &Socket {
        &self.pollable.socket
    }

    fn spare(&mut self) -> &mut Vec<u8> {
        &mut self.spare
    }
}

impl Room<'_, TcpStream> {
    /// Sends the first `n` bytes, all of them. Those that were not written are unspecified. In the ring that is done at
    /// once; a future that has to wait, and is dropped meanwhile, has sent some of them.
    pub async fn commit(mut self, n: usize) -> Result<(), InPlaceError> {
        if self.publish(n)? {
            return Ok(());
        }
        let (stream, mut done) = (&self.stream.pollable, 0);
        while done < n {
            let rest = &self.own()[done..n];
            let send = |socket: &Socket| socket.send(rest, SendFlags::DONTWAIT);
            done += stream.when(Direction::Out, send).await?;
        }
        Ok(())
    }
}

/// An attempt that is under way shows nothing but that.
fn is_connected(socket: &Socket) -> io::Result<()> {
    socket.take_error()?;
    match socket.peer_addr() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        other => other.map(drop),
    }
}

impl AsyncRead for &TcpStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_recv(task, room)
    }
}

impl AsyncWrite for &TcpStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(task, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown(Shutdown::Write))
    }
}

impl AsyncRead for TcpStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_recv(task, room)
    }
}

impl AsyncWrite for TcpStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(task, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shutdown(Shutdown::Write))
    }
}

#[cfg(feature = "tokio")]
mod for_tokio {
    use super::*;
    use tokio::io::ReadBuf;

    impl tokio::io::AsyncRead for TcpStream {
        #[inline]
        fn poll_read(
            self: Pin<&mut Self>,
            task: &mut Context<'_>,
            room: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let unfilled = room.initialize_unfilled();
            match self.poll_recv(task, unfilled) {
                Poll::Ready(Ok(n)) => {
                    room.advance(n);
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        }
    }

    impl tokio::io::AsyncWrite for TcpStream {
        #[inline]
        fn poll_write(
            self: Pin<&mut Self>,
            task: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_send(task, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.shutdown(Shutdown::Write))
        }
    }
}
