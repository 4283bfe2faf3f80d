//! An address that one process writes and others read.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netstack::in_shared_memory;

#[derive(Default)]
#[repr(C)]
pub struct Address {
    ip: [AtomicU64; 2],
    port: AtomicU32,
    known: AtomicU32,
}

in_shared_memory!(Address { ip, port, known });

impl Address {
    pub fn set(&self, addr: SocketAddr) {
        let bits = match addr.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => u128::from(ip),
        };
        self.ip[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.ip[1].store(bits as u64, Ordering::Relaxed);
        self.port.store(addr.port().into(), Ordering::Relaxed);
        self.known.store(1, Ordering::Release);
    }

    pub fn forget(&self) {
        self.known.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire) != 0
    }

    pub fn get(&self) -> Option<SocketAddr> {
        if !self.is_known() {
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
