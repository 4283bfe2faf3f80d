//! A listener whose waits are tasks.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

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
        let accept = |socket: &Socket| socket.accept(SocketFlags::NONBLOCK);
        let (socket, peer) = self.0.when(Direction::In, accept).await?;
        Ok((TcpStream::accepted(socket), peer))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.local_addr()
    }
}
