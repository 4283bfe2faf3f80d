//! rtnetlink's messages: a header of 16 bytes, a fixed part, attributes; all aligned by four, all in the
//! host's byte order (linux/netlink.h). Reading never panics and looks at no byte outside.

use std::net::IpAddr;
use std::vec::Vec;

const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
/// The upper two bits of an attribute's kind are flags.
const KIND: u16 = 0x3fff;

/// Bytes of the fixed part of generic netlink (`struct genlmsghdr` of linux/genetlink.h): command, version, nothing.
pub const GENERIC_HEADER: usize = 4;

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// A message to the kernel.
#[derive(Clone, Debug)]
pub struct NetlinkRequest(Vec<u8>);

impl NetlinkRequest {
    /// With this fixed part.
    pub fn new(kind: u16, flags: i32, fixed: &[u8]) -> NetlinkRequest {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend([0; 4]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags as u16 | libc::NLM_F_REQUEST as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        bytes.resize(aligned(bytes.len()), 0);
        NetlinkRequest(bytes)
    }

    /// A command of generic netlink, to the family of this number.
    pub fn generic(family: u16, command: u8) -> NetlinkRequest {
        let fixed: [u8; GENERIC_HEADER] = [command, 1, 0, 0];
        NetlinkRequest::new(family, 0, &fixed)
    }

    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> NetlinkRequest {
        self.0
            .extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
        self
    }

    #[must_use]
    pub fn with_address(self, kind: u16, address: IpAddr) -> NetlinkRequest {
        match address {
            IpAddr::V4(ip) => self.with(kind, &ip.octets()),
            IpAddr::V6(ip) => self.with(kind, &ip.octets()),
        }
    }

    /// Its bytes, with the number by which its answer is known.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    /// The fixed part and the attributes.
    pub body: &'a [u8],
}

/// All whole messages in a datagram.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let message = Message {
            kind: u16_at(bytes, 4)?,
            sequence: u32_at(bytes, 8)?,
            body: bytes.get(HEADER..length)?,
        };
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(message)
    })
}

impl<'a> Message<'a> {
    /// What follows a fixed part of this length.
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes(self.body.get(aligned(fixed)..).unwrap_or_default())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.iter()
            .find_map(|(found, value)| (found == kind).then_some(value))
    }

    pub fn number(self, kind: u16) -> Option<u32> {
        u32_at(self.find(kind)?, 0)
    }

    pub fn half(self, kind: u16) -> Option<u16> {
        u16_at(self.find(kind)?, 0)
    }

    fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut bytes = self.0;
        core::iter::from_fn(move || {
            let length = usize::from(u16_at(bytes, 0)?);
            let attribute = (u16_at(bytes, 2)? & KIND, bytes.get(ATTRIBUTE..length)?);
            bytes = bytes.get(aligned(length)..).unwrap_or_default();
            Some(attribute)
        })
    }
}

/// An address, by its length.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*field))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_and_back() {
        let request = NetlinkRequest::new(26, 4, &[1, 2, 3, 4, 5])
            .with(7, &[9])
            .with_address(8, IpAddr::from([10, 0, 0, 1]))
            .finish(77);
        let mut two = request.clone();
        two.extend(&request);
        assert_eq!(messages(&two).count(), 2);
        let message = messages(&two).last().expect("the second");
        assert_eq!((message.kind, message.sequence), (26, 77));
        assert_eq!(message.body[..5], [1, 2, 3, 4, 5]);
        let attributes = message.attributes(5);
        assert_eq!(attributes.find(7), Some(&[9][..]));
        assert_eq!(
            attributes.find(8).and_then(address),
            Some([10, 0, 0, 1].into())
        );
        assert_eq!(attributes.find(9), None);
    }

    proptest! {
        #[test]
        fn anything_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200), small in any::<bool>()) {
            let mut bytes = bytes;
            // Lengths that are likely.
            if small {
                bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = 0);
            }
            for message in messages(&bytes) {
                for (_, value) in message.attributes(12).iter() {
                    prop_assert!(value.len() < bytes.len());
                }
            }
        }
    }
}
