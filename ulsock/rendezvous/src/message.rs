//! What two processes say to each other over a control channel, and its bytes.
//!
//! Fixed little-endian layouts, one per kind. Decoding takes bytes from a peer that may be hostile:
//! a length or value that does not fit exactly yields `None`, never a panic.

use std::net::SocketAddr;

use crate::codec::{mapped, Reader};
use crate::mailbox_name::MailboxName;
use shm::doorbell::DoorbellKind;

/// In place of a cookie, which is never that: a refusal of all that we show. Our user has no place more.
pub const EVERY_COOKIE: u64 = 0;

/// Version of the messages and of everything that is shared after them.
pub const VERSION: u16 = 3;

/// No message is longer.
pub const MAX: usize = 56;

/// A message. Which of them carry a descriptor is told by [`Message::carries_fd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// First on every channel, from both sides; with the sender's waiter page.
    Hello { version: u16, pid: u32 },
    /// A new segment of this pair of processes, made by the claiming side; with its memfd.
    Segment { segment: u32, conns: u32 },
    /// The claiming side has put this connection into a segment.
    Claim {
        /// SO_COOKIE of the socket that was offered.
        offer_cookie: u64,
        /// SO_COOKIE of the socket that claims it.
        claim_cookie: u64,
        segment: u32,
        conn: u32,
    },
    /// Rings one of the sender's waiters; with the end to ring.
    Doorbell { waiter: u32, kind: DoorbellKind },
    /// To the daemon: a connection that shall be known to the peer's daemon, and be given a block; with
    /// a duplicate of its socket, which proves that it is the sender's.
    Show { cookie: u64, connected: bool },
    /// From the daemon: it will not claim that connection, for this reason.
    Refuse { cookie: u64, reason: u16 },
    /// To the daemon: the program has closed a connection that the link carries; with a duplicate of its
    /// socket. The daemon does the rest (`[F24]` of docs/failover.md).
    Leave { segment: u32, conn: u32 },
    /// Between network namespaces, before a claim: lets the other end ask about our sockets; with a
    /// [window](os::window). It comes from the claiming side over the channel of the pair, and
    /// from the offering side over a channel of its own to the claiming side's mailbox.
    Window {
        /// SO_COOKIE of the socket that was offered.
        offer_cookie: u64,
        /// The sender's.
        mailbox: MailboxName,
        /// From the offering side.
        returned: bool,
    },
    /// To the daemon: the program wants a queue of the NIC, for an engine of its own.
    Ask,
    /// From the daemon: here it is; with its socket (see `netstack::phy::packet::Queue`).
    Queue(Queue),
    /// From the daemon: how frames of that engine get to one at another host.
    Route(Route),
    /// To the daemon: the program's own engine carries a connection; with a duplicate of its socket, by
    /// which the daemon says the rest if the process is killed.
    Entrust { segment: u32, conn: u32 },
    /// To the daemon of the host, from a container: a connection whose other end may be in another one;
    /// with a duplicate of its socket, as in [`Message::Show`].
    Seek { cookie: u64, connected: bool },
    /// From that daemon: a program in another container; with a channel to it.
    Introduce(Introduction),
    /// From that daemon: the other end of a connection that was sought.
    Found {
        cookie: u64,
        /// SO_COOKIE of the other end.
        other: u64,
        /// The introduction of the program that has it.
        number: u32,
    },
}

/// What a program is told of another, whom it cannot ask itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// In the daemon's count.
    pub number: u32,
    /// Whom the other program runs as, in the daemon's eyes.
    pub uid: u32,
    /// That is whom we run as too.
    pub same_user: bool,
    /// It is for us to claim, and for the other to offer.
    pub claims: bool,
}

/// What a program has to know of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    pub mtu: u16,
    pub address: [u8; 6],
    pub receive_slots: u32,
    pub send_slots: u32,
}

/// From one engine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub number: u32,
    pub ours: SocketAddr,
    pub theirs: SocketAddr,
    /// Hardware addresses: ours, and of the next hop.
    pub source: [u8; 6],
    pub destination: [u8; 6],
    pub mtu: u16,
}

const HELLO: u16 = 1;
const SEGMENT: u16 = 2;
const CLAIM: u16 = 3;
const DOORBELL: u16 = 4;
const SHOW: u16 = 5;
const REFUSE: u16 = 6;
const LEAVE: u16 = 7;
const WINDOW: u16 = 8;
const ASK: u16 = 9;
const QUEUE: u16 = 10;
const ROUTE: u16 = 11;
const ENTRUST: u16 = 12;
const SEEK: u16 = 13;
const INTRODUCE: u16 = 14;
const FOUND: u16 = 15;

impl Message {
    /// Whether exactly one descriptor travels with this message; otherwise none does.
    pub fn carries_fd(&self) -> bool {
        use Message::{Ask, Claim, Found, Refuse, Route};
        !matches!(
            self,
            Claim { .. } | Refuse { .. } | Ask | Route(_) | Found { .. }
        )
    }

    /// The message's bytes: a 16-bit kind and the fields in order of declaration.
    pub fn encode(&self) -> Encoded {
        match *self {
            Message::Hello { version, pid } => Encoded::new(HELLO)
                .put(&version.to_le_bytes())
                .put(&pid.to_le_bytes()),
            Message::Segment { segment, conns } => Encoded::new(SEGMENT)
                .put(&segment.to_le_bytes())
                .put(&conns.to_le_bytes()),
            Message::Claim {
                offer_cookie,
                claim_cookie,
                segment,
                conn,
            } => Encoded::new(CLAIM)
                .put(&offer_cookie.to_le_bytes())
                .put(&claim_cookie.to_le_bytes())
                .put(&segment.to_le_bytes())
                .put(&conn.to_le_bytes()),
            Message::Doorbell { waiter, kind } => Encoded::new(DOORBELL)
                .put(&waiter.to_le_bytes())
                .put(&[kind.to_wire()]),
            Message::Show { cookie, connected } => Encoded::new(SHOW)
                .put(&cookie.to_le_bytes())
                .put(&[connected.into()]),
            Message::Refuse { cookie, reason } => Encoded::new(REFUSE)
                .put(&cookie.to_le_bytes())
                .put(&reason.to_le_bytes()),
            Message::Leave { segment, conn } => Encoded::new(LEAVE)
                .put(&segment.to_le_bytes())
                .put(&conn.to_le_bytes()),
            Message::Window {
                offer_cookie,
                mailbox,
                returned,
            } => Encoded::new(WINDOW)
                .put(&offer_cookie.to_le_bytes())
                .put(&mailbox.pid.to_le_bytes())
                .put(&mailbox.random.to_le_bytes())
                .put(&[returned.into()]),
            Message::Ask => Encoded::new(ASK),
            Message::Queue(queue) => Encoded::new(QUEUE)
                .put(&queue.mtu.to_le_bytes())
                .put(&queue.address)
                .put(&queue.receive_slots.to_le_bytes())
                .put(&queue.send_slots.to_le_bytes()),
            Message::Route(route) => Encoded::new(ROUTE)
                .put(&route.number.to_le_bytes())
                .put_end(route.ours)
                .put_end(route.theirs)
                .put(&route.source)
                .put(&route.destination)
                .put(&route.mtu.to_le_bytes()),
            Message::Entrust { segment, conn } => Encoded::new(ENTRUST)
                .put(&segment.to_le_bytes())
                .put(&conn.to_le_bytes()),
            Message::Seek { cookie, connected } => Encoded::new(SEEK)
                .put(&cookie.to_le_bytes())
                .put(&[connected.into()]),
            Message::Introduce(it) => Encoded::new(INTRODUCE)
                .put(&it.number.to_le_bytes())
                .put(&it.uid.to_le_bytes())
                .put(&[it.same_user.into(), it.claims.into()]),
            Message::Found {
                cookie,
                other,
                number,
            } => Encoded::new(FOUND)
                .put(&cookie.to_le_bytes())
                .put(&other.to_le_bytes())
                .put(&number.to_le_bytes()),
        }
    }

    /// Reads a message that must fill `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut rest = Reader(bytes);
        let message = match rest.u16()? {
            HELLO => Message::Hello {
                version: rest.u16()?,
                pid: rest.u32()?,
            },
            SEGMENT => Message::Segment {
                segment: rest.u32()?,
                conns: rest.u32()?,
            },
            CLAIM => Message::Claim {
                offer_cookie: rest.u64()?,
                claim_cookie: rest.u64()?,
                segment: rest.u32()?,
                conn: rest.u32()?,
            },
            DOORBELL => Message::Doorbell {
                waiter: rest.u32()?,
                kind: DoorbellKind::from_wire(rest.u8()?)?,
            },
            SHOW => Message::Show {
                cookie: rest.u64()?,
                connected: rest.bool()?,
            },
            REFUSE => Message::Refuse {
                cookie: rest.u64()?,
                reason: rest.u16()?,
            },
            LEAVE => Message::Leave {
                segment: rest.u32()?,
                conn: rest.u32()?,
            },
            WINDOW => Message::Window {
                offer_cookie: rest.u64()?,
                mailbox: MailboxName {
                    pid: rest.u32()?,
                    random: rest.u64()?,
                },
                returned: rest.bool()?,
            },
            ASK => Message::Ask,
            QUEUE => Message::Queue(Queue {
                mtu: rest.u16()?,
                address: rest.take()?,
                receive_slots: rest.u32()?,
                send_slots: rest.u32()?,
            }),
            ROUTE => Message::Route(Route {
                number: rest.u32()?,
                ours: rest.address()?,
                theirs: rest.address()?,
                source: rest.take()?,
                destination: rest.take()?,
                mtu: rest.u16()?,
            }),
            ENTRUST => Message::Entrust {
                segment: rest.u32()?,
                conn: rest.u32()?,
            },
            SEEK => Message::Seek {
                cookie: rest.u64()?,
                connected: rest.bool()?,
            },
            INTRODUCE => Message::Introduce(Introduction {
                number: rest.u32()?,
                uid: rest.u32()?,
                same_user: rest.bool()?,
                claims: rest.bool()?,
            }),
            FOUND => Message::Found {
                cookie: rest.u64()?,
                other: rest.u64()?,
                number: rest.u32()?,
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

/// An encoded message.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; MAX],
    len: usize,
}

impl Encoded {
    fn new(kind: u16) -> Encoded {
        let empty = Encoded {
            bytes: [0; MAX],
            len: 0,
        };
        empty.put(&kind.to_le_bytes())
    }

    fn put(mut self, field: &[u8]) -> Encoded {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
        self
    }

    fn put_end(self, end: SocketAddr) -> Encoded {
        self.put(&mapped(end.ip()).octets())
            .put(&end.port().to_le_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    fn any_end() -> impl Strategy<Value = SocketAddr> {
        any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let kind = prop_oneof![Just(DoorbellKind::Event), Just(DoorbellKind::Socket)];
        prop_oneof![
            any::<(u16, u32)>().prop_map(|(version, pid)| Message::Hello { version, pid }),
            any::<(u32, u32)>().prop_map(|(segment, conns)| Message::Segment { segment, conns }),
            any::<(u64, u64, u32, u32)>().prop_map(
                |(offer_cookie, claim_cookie, segment, conn)| Message::Claim {
                    offer_cookie,
                    claim_cookie,
                    segment,
                    conn
                }
            ),
            (any::<u32>(), kind).prop_map(|(waiter, kind)| Message::Doorbell { waiter, kind }),
            any::<(u64, bool)>()
                .prop_map(|(cookie, connected)| Message::Show { cookie, connected }),
            any::<(u64, u16)>().prop_map(|(cookie, reason)| Message::Refuse { cookie, reason }),
            any::<(u32, u32)>().prop_map(|(segment, conn)| Message::Leave { segment, conn }),
            Just(Message::Ask),
            any::<(u16, [u8; 6], u32, u32)>().prop_map(
                |(mtu, address, receive_slots, send_slots)| Message::Queue(Queue {
                    mtu,
                    address,
                    receive_slots,
                    send_slots
                })
            ),
            (
                any::<(u32, u16)>(),
                any_end(),
                any_end(),
                any::<([u8; 6], [u8; 6])>()
            )
                .prop_map(|((number, mtu), ours, theirs, (source, destination))| {
                    Message::Route(Route {
                        number,
                        ours,
                        theirs,
                        source,
                        destination,
                        mtu,
                    })
                }),
            any::<(u32, u32)>().prop_map(|(segment, conn)| Message::Entrust { segment, conn }),
            any::<(u64, bool)>()
                .prop_map(|(cookie, connected)| Message::Seek { cookie, connected }),
            any::<(u32, u32, bool, bool)>().prop_map(|(number, uid, same_user, claims)| {
                Message::Introduce(Introduction {
                    number,
                    uid,
                    same_user,
                    claims,
                })
            }),
            any::<(u64, u64, u32)>().prop_map(|(cookie, other, number)| Message::Found {
                cookie,
                other,
                number
            }),
            any::<(u64, u32, u64, bool)>().prop_map(|(offer_cookie, pid, random, returned)| {
                Message::Window {
                    offer_cookie,
                    mailbox: MailboxName { pid, random },
                    returned,
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn round_trips(message in any_message()) {
            prop_assert_eq!(Message::decode(message.encode().as_bytes()), Some(message));
        }

        #[test]
        fn takes_no_other_length(message in any_message(), more in 1usize..9) {
            let bytes = message.encode();
            let bytes = bytes.as_bytes();
            for len in 0..bytes.len() {
                prop_assert_eq!(Message::decode(&bytes[..len]), None);
            }
            let mut long = bytes.to_vec();
            long.resize(bytes.len() + more, 0);
            prop_assert_eq!(Message::decode(&long), None);
        }

        #[test]
        fn never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0u8..17) {
            let _ = Message::decode(&bytes);
            if bytes.len() >= 2 {
                (bytes[0], bytes[1]) = (kind, 0);
            }
            let decoded = Message::decode(&bytes);
            if let Some(message) = decoded {
                let again = message.encode();
                prop_assert_eq!(again.as_bytes(), &bytes[..]);
            }
        }
    }
}
