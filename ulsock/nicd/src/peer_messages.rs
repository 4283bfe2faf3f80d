//! What two daemons say to each other about connections and names, and its bytes.
//!
//! Fixed layouts in network byte order, one per kind. The peer may be hostile: a length or value that
//! does not fit exactly yields `None`.

use std::net::SocketAddr;

use rendezvous::codec::{Reader, mapped};
use rendezvous::names::Service;

/// Version of all that follows.
pub const VERSION: u16 = 4;

/// A connection, as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl Tuple {
    /// Both addresses as they are on the wire: a socket of IPv6 may speak IPv4.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Tuple {
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        Tuple {
            local: plain(local),
            remote: plain(remote),
        }
    }

    /// As the other end sees it.
    pub fn mirrored(self) -> Tuple {
        Tuple {
            local: self.remote,
            remote: self.local,
        }
    }
}

/// One of the sender's connections, `id` in its own count; or one of the receiver's, by the count of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// First on every channel, from both sides. Another life knows nothing of what was said before.
    Hello {
        version: u16,
        life: u64,
        /// How many engines it has: those of the two daemons with the same number work together.
        engines: u16,
    },
    /// A program has shown this connection here.
    Shown {
        id: u64,
        tuple: Tuple,
        connected: bool,
        /// The UDP port of the program's own engine; 0: it has none for this connection.
        lease: u16,
    },
    /// That connection is no more.
    Withdrawn { id: u64 },
    /// B's library has its block, and looks at it: A's may propose.
    Ready { to: u64 },
    /// `[F2]` A's library proposes.
    Prepare(Proposal),
    /// `[F3]` B's library agrees.
    Agree { to: u64, epoch: u64 },
    /// Nothing comes of that proposal.
    Decline { to: u64, epoch: u64 },
    /// A program of the sender's host has registered a name.
    Named(Named),
    /// That name is no more.
    Unnamed { id: u64 },
    /// All names that there were have been told.
    NamesTold,
}

/// A name, `id` in the sender's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub id: u64,
    pub service: Service,
    pub instance: u32,
    pub address: SocketAddr,
    pub uid: u32,
    pub pid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub to: u64,
    pub from: u64,
    /// `[C1]` Of the connection on the link.
    pub name: u64,
    pub epoch: u64,
    pub key: u64,
    pub sent: u64,
    pub received: u64,
    /// Both programs' own engines carry it.
    pub inline: bool,
    /// Else the engines with this number do.
    pub engine: u16,
}

const HELLO: u8 = 1;
const SHOWN: u8 = 2;
const WITHDRAWN: u8 = 3;
const PREPARE: u8 = 4;
const AGREE: u8 = 5;
const DECLINE: u8 = 6;
const READY: u8 = 7;
const NAMED: u8 = 8;
const UNNAMED: u8 = 9;
const NAMES_TOLD: u8 = 10;

impl PeerMessage {
    /// Somebody waits for what comes of it.
    pub fn is_urgent(&self) -> bool {
        matches!(self, PeerMessage::Prepare(_) | PeerMessage::Agree { .. })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let mut put = |kind: u8, fields: &[u64]| {
            bytes.push(kind);
            bytes.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
        };
        match *self {
            PeerMessage::Hello {
                version,
                life,
                engines,
            } => put(HELLO, &[version.into(), life, engines.into()]),
            PeerMessage::Shown {
                id,
                tuple,
                connected,
                lease,
            } => {
                put(SHOWN, &[id, connected.into(), lease.into()]);
                for end in [tuple.local, tuple.remote] {
                    bytes.extend(mapped(end.ip()).octets());
                    bytes.extend(end.port().to_be_bytes());
                }
            }
            PeerMessage::Withdrawn { id } => put(WITHDRAWN, &[id]),
            PeerMessage::Prepare(it) => put(
                PREPARE,
                &[
                    it.to,
                    it.from,
                    it.name,
                    it.epoch,
                    it.key,
                    it.sent,
                    it.received,
                    it.inline.into(),
                    it.engine.into(),
                ],
            ),
            PeerMessage::Agree { to, epoch } => put(AGREE, &[to, epoch]),
            PeerMessage::Decline { to, epoch } => put(DECLINE, &[to, epoch]),
            PeerMessage::Ready { to } => put(READY, &[to]),
            PeerMessage::Named(it) => {
                let [instance, uid, pid] = [it.instance, it.uid, it.pid].map(u64::from);
                put(NAMED, &[it.id, instance, uid, pid]);
                bytes.extend(mapped(it.address.ip()).octets());
                bytes.extend(it.address.port().to_be_bytes());
                bytes.extend(it.service.bytes());
            }
            PeerMessage::Unnamed { id } => put(UNNAMED, &[id]),
            PeerMessage::NamesTold => put(NAMES_TOLD, &[]),
        }
        bytes
    }

    /// Reads a message that must fill `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Option<PeerMessage> {
        let (kind, bytes) = bytes.split_first()?;
        let mut rest = Reader(bytes);
        let message = match *kind {
            HELLO => PeerMessage::Hello {
                version: rest.u64_be()?.try_into().ok()?,
                life: rest.u64_be()?,
                engines: rest.u64_be()?.try_into().ok()?,
            },
            SHOWN => {
                let (id, connected) = (rest.u64_be()?, rest.bool_be()?);
                let lease = rest.u64_be()?.try_into().ok()?;
                let tuple = Tuple::new(rest.address_be()?, rest.address_be()?);
                PeerMessage::Shown {
                    id,
                    tuple,
                    connected,
                    lease,
                }
            }
            WITHDRAWN => PeerMessage::Withdrawn { id: rest.u64_be()? },
            PREPARE => PeerMessage::Prepare(Proposal {
                to: rest.u64_be()?,
                from: rest.u64_be()?,
                name: rest.u64_be()?,
                epoch: rest.u64_be()?,
                key: rest.u64_be()?,
                sent: rest.u64_be()?,
                received: rest.u64_be()?,
                inline: rest.bool_be()?,
                engine: rest.u64_be()?.try_into().ok()?,
            }),
            AGREE => PeerMessage::Agree {
                to: rest.u64_be()?,
                epoch: rest.u64_be()?,
            },
            READY => PeerMessage::Ready { to: rest.u64_be()? },
            DECLINE => PeerMessage::Decline {
                to: rest.u64_be()?,
                epoch: rest.u64_be()?,
            },
            NAMED => PeerMessage::Named(Named {
                id: rest.u64_be()?,
                instance: rest.u64_be()?.try_into().ok()?,
                uid: rest.u64_be()?.try_into().ok()?,
                pid: rest.u64_be()?.try_into().ok()?,
                address: rest.address_be()?,
                service: Service::from_bytes(&rest.take()?)?,
            }),
            UNNAMED => PeerMessage::Unnamed { id: rest.u64_be()? },
            NAMES_TOLD => PeerMessage::NamesTold,
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = PeerMessage> {
        let end = any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip, port));
        let tuple = (end.clone(), end).prop_map(|(local, remote)| Tuple::new(local, remote));
        prop_oneof![
            any::<(u16, u64, u16)>().prop_map(|(version, life, engines)| PeerMessage::Hello {
                version,
                life,
                engines,
            }),
            (any::<(u64, bool, u16)>(), tuple).prop_map(|((id, connected, lease), tuple)| {
                PeerMessage::Shown {
                    id,
                    tuple,
                    connected,
                    lease,
                }
            }),
            any::<u64>().prop_map(|id| PeerMessage::Withdrawn { id }),
            any::<([u64; 7], bool, u16)>().prop_map(|(numbers, inline, engine)| {
                let [to, from, name, epoch, key, sent, received] = numbers;
                PeerMessage::Prepare(Proposal {
                    to,
                    from,
                    name,
                    epoch,
                    key,
                    sent,
                    received,
                    inline,
                    engine,
                })
            }),
            any::<u64>().prop_map(|to| PeerMessage::Ready { to }),
            any_name().prop_map(PeerMessage::Named),
            any::<u64>().prop_map(|id| PeerMessage::Unnamed { id }),
            Just(PeerMessage::NamesTold),
            any::<[u64; 2]>().prop_map(|[to, epoch]| PeerMessage::Agree { to, epoch }),
            any::<[u64; 2]>().prop_map(|[to, epoch]| PeerMessage::Decline { to, epoch }),
        ]
    }

    fn any_name() -> impl Strategy<Value = Named> {
        let numbers = any::<(u64, u32, u32, u32, IpAddr, u16)>();
        ("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", numbers).prop_map(|(service, numbers)| {
            let (id, instance, uid, pid, ip, port) = numbers;
            Named {
                id,
                service: Service::new(&service).unwrap(),
                instance,
                address: SocketAddr::new(mapped(ip).into(), port),
                uid,
                pid,
            }
        })
    }

    proptest! {
        #[test]
        fn there_and_back(message in any_message()) {
            let bytes = message.encode();
            prop_assert_eq!(PeerMessage::decode(&bytes), Some(message));
            for length in 0..bytes.len() {
                prop_assert_eq!(PeerMessage::decode(&bytes[..length]), None);
            }
            prop_assert_eq!(PeerMessage::decode(&[&bytes[..], &[0]].concat()), None);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
            let _ = PeerMessage::decode(&bytes);
        }
    }
}
