//! What is in the file of a name: one record of fixed length. Whoever may write the file may write anything, so a byte that
//! does not fit exactly makes it no record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::label::{Elsewhere, LONGEST, Label, Service};
use crate::codec::{Reader, Writer, mapped};

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"ulsname\x01";

/// The length of the file.
pub const SIZE: usize = 8 + 8 + 8 + 4 + 4 + 4 + 18 + 4 + 1 + 16 + LONGEST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub label: Label,
    pub address: SocketAddr,
    /// Of another host's: what its daemon says. For one of this host the owner of the file counts.
    pub uid: u32,
    /// As the process sees itself.
    pub pid: u32,
    /// The network namespace in which the address is meant.
    pub namespace: u64,
    /// Another one for each registration.
    pub nonce: u64,
}

impl Record {
    /// Where it is reached from this host: who listens at every address is, at the one that leads to ourselves.
    pub fn reached_at(&self) -> SocketAddr {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        address
    }

    pub fn encode(&self) -> [u8; SIZE] {
        let scope = match self.address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        let host = self.label.host().map_or(Ipv6Addr::UNSPECIFIED, mapped);
        let bytes = Writer::<SIZE>::default()
            .put(&MAGIC)
            .u64(self.nonce)
            .u64(self.namespace)
            .u32(self.pid)
            .u32(self.uid)
            .u32(self.label.instance)
            .address(self.address)
            .u32(scope)
            .bool(self.label.elsewhere.is_some())
            .put(&host.octets())
            .put(&self.label.service.bytes());
        let mut all = [0; SIZE];
        all.copy_from_slice(bytes.as_bytes());
        all
    }

    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let mut rest = Reader(bytes);
        if rest.take()? != MAGIC {
            return None;
        }
        let (nonce, namespace) = (rest.u64()?, rest.u64()?);
        let (pid, uid, instance) = (rest.u32()?, rest.u32()?, rest.u32()?);
        let mut address = rest.address()?;
        match (&mut address, rest.u32()?) {
            (SocketAddr::V6(address), scope) => address.set_scope_id(scope),
            (SocketAddr::V4(_), 0) => {}
            (SocketAddr::V4(_), _) => return None,
        }
        let (is_elsewhere, host) = (rest.bool()?, Ipv6Addr::from(rest.take::<16>()?));
        let elsewhere = match is_elsewhere {
            true => Some(Elsewhere {
                host: IpAddr::V6(host).to_canonical(),
                uid,
            }),
            false if host.is_unspecified() => None,
            false => return None,
        };
        let service = Service::from_bytes(&rest.take()?)?;
        let label = Label {
            service,
            instance,
            elsewhere,
        };
        let is_whole = address.port() != 0;
        let record = Record {
            label,
            address,
            uid,
            pid,
            namespace,
            nonce,
        };
        rest.ends(record).filter(|_| is_whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let name = (
            "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
            any::<u32>(),
            any::<Option<IpAddr>>(),
        );
        let numbers = any::<(u32, u32, u64, u64)>();
        (name, any::<IpAddr>(), 1_u16.., numbers).prop_map(|(name, ip, port, numbers)| {
            let (service, instance, host) = name;
            let (uid, pid, namespace, nonce) = numbers;
            let elsewhere = host.map(|host| Elsewhere {
                host: host.to_canonical(),
                uid,
            });
            let service = Service::new(&service).unwrap();
            Record {
                label: Label {
                    service,
                    instance,
                    elsewhere,
                },
                address: SocketAddr::new(ip.to_canonical(), port),
                uid,
                pid,
                namespace,
                nonce,
            }
        })
    }

    proptest! {
        #[test]
        fn there_and_back(record in any_record()) {
            let bytes = record.encode();
            prop_assert_eq!(Record::decode(&bytes), Some(record));
            for length in 0..bytes.len() {
                prop_assert_eq!(Record::decode(&bytes[..length]), None);
            }
            prop_assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()), None);
        }

        /// What is read as a record is written as the same bytes: nothing hides in it.
        #[test]
        fn damaged(record in any_record(), at in 0..SIZE, value: u8) {
            let mut bytes = record.encode();
            bytes[at] = value;
            if let Some(read) = Record::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }

        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), SIZE), is_ours: bool) {
            if is_ours {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            if let Some(read) = Record::decode(&bytes) {
                prop_assert_eq!(&read.encode()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        let address = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 3);
        let record = Record {
            label: Label::here(Service::new("db").unwrap(), 1),
            address: address.into(),
            uid: 0,
            pid: 1,
            namespace: 2,
            nonce: 3,
        };
        assert_eq!(Record::decode(&record.encode()), Some(record));
    }
}
