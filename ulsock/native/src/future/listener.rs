//! A listener whose waits are tasks.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::{Context, Poll};

use rustix::net::SocketFlags;

use super::TcpStream;
use super::pollable::Pollable;
use crate::socket::{Socket, each};
use crate::wait::Direction;

/// Accepts connections.
#[derive(Debug)]
pub struct TcpListener(Pollable);

impl TcpListener {
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<TcpListener> {
        let socket = each(at, |address| Socket::listen(address, SocketFlags::NONBLOCK))?;
        Ok(TcpListener(Pollable::listener(socket)))
    }

    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|task| self.poll_accept(task)).await
    }

    pub(crate) fn poll_accept(
        &self,
        task: &Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accept = |socket: &Socket| socket.accept(SocketFlags::NONBLOCK);
        let accepted = self.0.poll(Direction::In, task, accept);
        accepted.map_ok(|(socket, peer)| (TcpStream::accepted(socket), peer))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.local_addr()
    }
}
