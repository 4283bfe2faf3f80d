//! A listener whose calls wait.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use rustix::net::SocketFlags;

use crate::TcpStream;
use crate::socket::{Socket, each};

/// Accepts connections, as `std::net::TcpListener` does.
#[derive(Debug)]
pub struct TcpListener(Socket);

impl TcpListener {
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<TcpListener> {
        each(at, |address| Socket::listen(address, SocketFlags::empty())).map(TcpListener)
    }

    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = self.0.accept(SocketFlags::empty())?;
        Ok((TcpStream::accepted(socket), peer))
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
