//! How messages are read and written: fixed fields one after the other, and nothing behind them.
//!
//! Between processes of one host numbers are little endian; between daemons, whose hosts may differ, big endian.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What has not been read yet. Every method takes one field from its beginning; `None`: it is not there, or is none.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    /// The message, if nothing is left behind it.
    pub fn ends<T>(self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub fn bool(&mut self) -> Option<bool> {
        truth(self.u8()?.into())
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// IPv4 travels within IPv6.
    pub fn address(&mut self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(self.take::<16>()?).to_canonical();
        Some(SocketAddr::new(ip, self.u16()?))
    }

    pub fn u64_be(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// As wide as a number.
    pub fn bool_be(&mut self) -> Option<bool> {
        truth(self.u64_be()?)
    }

    /// As it travels: IPv4 within IPv6.
    pub fn address_be(&mut self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(self.take::<16>()?);
        let port = u16::from_be_bytes(self.take()?);
        Some(SocketAddr::new(ip.into(), port))
    }
}

fn truth(number: u64) -> Option<bool> {
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// An address as it travels.
pub fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
