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

/// The bytes of a message, of which there are `N` at most. Every method puts one field behind the others.
#[derive(Clone, Copy, Debug)]
pub struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Writer<N> {
    fn default() -> Writer<N> {
        Writer {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Writer<N> {
    pub fn put(mut self, field: &[u8]) -> Writer<N> {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
        self
    }

    pub fn u8(self, number: u8) -> Writer<N> {
        self.put(&[number])
    }

    pub fn bool(self, truth: bool) -> Writer<N> {
        self.u8(truth.into())
    }

    pub fn u16(self, number: u16) -> Writer<N> {
        self.put(&number.to_le_bytes())
    }

    pub fn u32(self, number: u32) -> Writer<N> {
        self.put(&number.to_le_bytes())
    }

    pub fn u64(self, number: u64) -> Writer<N> {
        self.put(&number.to_le_bytes())
    }

    /// IPv4 travels within IPv6.
    pub fn address(self, end: SocketAddr) -> Writer<N> {
        self.put(&mapped(end.ip()).octets()).u16(end.port())
    }

    pub fn u64_be(self, number: u64) -> Writer<N> {
        self.put(&number.to_be_bytes())
    }

    /// As wide as a number.
    pub fn bool_be(self, truth: bool) -> Writer<N> {
        self.u64_be(truth.into())
    }

    /// IPv4 within IPv6.
    pub fn address_be(self, end: SocketAddr) -> Writer<N> {
        self.put(&mapped(end.ip()).octets())
            .put(&end.port().to_be_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
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
