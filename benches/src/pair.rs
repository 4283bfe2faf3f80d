//! Both ends of a connection in this process, brought onto rings or kept from them: for benches that
//! measure single calls. Programs that use it are started on ulsock.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::epoll::Epoll;

/// A connection that is not on rings by then will not be.
const PROMOTION_TIMEOUT: Duration = Duration::from_secs(20);
const SIZE: usize = 64;

pub struct Pair {
    pub client: TcpStream,
    pub server: TcpStream,
}

impl Pair {
    /// On kernel TCP, as every connection begins.
    pub fn connect(listener: &TcpListener) -> Result<Pair, Box<dyn Error>> {
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Pair { client, server })
    }

    pub fn on_rings() -> Result<Pair, Box<dyn Error>> {
        let mut pair = Pair::connect(&TcpListener::bind("127.0.0.1:0")?)?;
        pair.move_to_rings()?;
        Ok(pair)
    }

    /// By a call that rings cannot answer. The search for the peer finds that out within these round trips.
    pub fn kept_on_kernel() -> Result<Pair, Box<dyn Error>> {
        let mut pair = Pair::connect(&TcpListener::bind("127.0.0.1:0")?)?;
        for end in [&pair.client, &pair.server] {
            ask_for_the_impossible(end);
        }
        for _ in 0..1000 {
            pair.round_trip()?;
        }
        match pair.is_on_ring()? {
            true => Err("it has left kernel TCP".into()),
            false => Ok(pair),
        }
    }

    /// Makes round trips until both directions are on rings.
    pub fn move_to_rings(&mut self) -> Result<(), Box<dyn Error>> {
        let begun = Instant::now();
        while !self.is_on_ring()? {
            self.round_trip()?;
            if begun.elapsed() > PROMOTION_TIMEOUT {
                return Err("it stays on kernel TCP: started on ulsock?".into());
            }
        }
        Ok(())
    }

    pub fn still_on_rings(mut self) -> Result<(), Box<dyn Error>> {
        match self.is_on_ring()? {
            true => Ok(()),
            false => Err("it has returned to kernel TCP".into()),
        }
    }

    /// A message there and back.
    pub fn round_trip(&mut self) -> Result<(), Box<dyn Error>> {
        let mut bytes = [7; SIZE];
        self.client.write_all(&bytes)?;
        self.server.read_exact(&mut bytes)?;
        self.server.write_all(&bytes)?;
        self.client.read_exact(&mut bytes)?;
        Ok(())
    }

    /// An epoll set with the server's end in it, which it has waited for.
    pub fn watched(&mut self) -> Result<Epoll, Box<dyn Error>> {
        let set = Epoll::new()?;
        set.add(self.server.as_raw_fd())?;
        let mut bytes = [7; SIZE];
        for _ in 0..SIZE {
            self.client.write_all(&bytes)?;
            set.wait(&mut Vec::new())?;
            self.server.read_exact(&mut bytes)?;
        }
        Ok(set)
    }

    /// Sends a message each way and looks whether the kernel has seen it. rustix makes its system
    /// calls itself: they pass by ulsock.
    fn is_on_ring(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut bytes = [7; SIZE];
        self.client.write_all(&bytes)?;
        let there = rustix::io::ioctl_fionread(&self.server)?;
        self.server.read_exact(&mut bytes)?;
        self.server.write_all(&bytes)?;
        let back = rustix::io::ioctl_fionread(&self.client)?;
        self.client.read_exact(&mut bytes)?;
        Ok(there == 0 && back == 0)
    }
}

/// A read with flags that no kernel has: it fails, and reads nothing.
fn ask_for_the_impossible(end: &TcpStream) {
    let mut room = [0u8; 1];
    let list = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: one entry, whose room outlives the call.
    unsafe { libc::preadv2(end.as_raw_fd(), &list, 1, -1, 1 << 30) };
}
