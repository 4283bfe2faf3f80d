//! Where an end of a connection is: an address, or the number of a Unix socket. One process writes it, others read.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netstack::in_shared_memory;

/// An end of a connection, for those who look from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Inet(SocketAddr),
    /// A Unix socket, by its number in the socket file system; 0: not known yet.
    Unix(u32),
}

impl Endpoint {
    pub fn inet(self) -> Option<SocketAddr> {
        match self {
            Endpoint::Inet(address) => Some(address),
            Endpoint::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint::Inet(address)
    }
}

#[derive(Default)]
#[repr(C)]
pub struct Address {
    ip: [AtomicU64; 2],
    port: AtomicU32,
    known: AtomicU32,
}

in_shared_memory!(Address { ip, port, known });

/// What is known: an IP address with its port,
const INET: u32 = 1;
/// or that it is a Unix socket, and its number in the socket file system; 0: not yet.
const UNIX: u32 = 2;

impl Address {
    pub fn set(&self, addr: SocketAddr) {
        let bits = match addr.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => u128::from(ip),
        };
        self.ip[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.ip[1].store(bits as u64, Ordering::Relaxed);
        self.port.store(addr.port().into(), Ordering::Relaxed);
        self.known.store(INET, Ordering::Release);
    }

    /// Of a Unix socket.
    pub fn set_inode(&self, inode: u32) {
        self.port.store(inode, Ordering::Relaxed);
        self.known.store(UNIX, Ordering::Release);
    }

    #[inline]
    pub fn is_unix(&self) -> bool {
        self.known.load(Ordering::Acquire) == UNIX
    }

    /// `None`: no Unix socket, or its number is not known yet.
    pub fn inode(&self) -> Option<u32> {
        let inode = self.is_unix().then(|| self.port.load(Ordering::Relaxed));
        inode.filter(|inode| *inode != 0)
    }

    /// Do both say the same, and say it?
    pub fn is(&self, other: &Address) -> bool {
        self.is_known() && self.get() == other.get() && self.inode() == other.inode()
    }

    pub fn endpoint(&self) -> Option<Endpoint> {
        match self.is_unix() {
            true => Some(Endpoint::Unix(self.port.load(Ordering::Relaxed))),
            false => self.get().map(Endpoint::Inet),
        }
    }

    /// The same as another says.
    pub fn set_endpoint(&self, endpoint: Option<Endpoint>) {
        match endpoint {
            Some(Endpoint::Inet(address)) => self.set(address),
            Some(Endpoint::Unix(inode)) => self.set_inode(inode),
            None => self.forget(),
        }
    }

    pub fn forget(&self) {
        self.known.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire) != 0
    }

    pub fn get(&self) -> Option<SocketAddr> {
        if self.known.load(Ordering::Acquire) != INET {
            return None;
        }
        let bits = u128::from(self.ip[0].load(Ordering::Relaxed)) << 64
            | u128::from(self.ip[1].load(Ordering::Relaxed));
        let ip = Ipv6Addr::from(bits).to_canonical();
        Some(SocketAddr::new(
            ip,
            self.port.load(Ordering::Relaxed) as u16,
        ))
    }
}
