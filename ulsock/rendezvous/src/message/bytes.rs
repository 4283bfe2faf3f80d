//! The bytes of a message: fixed little-endian layouts, one per kind.
//!
//! Decoding takes bytes from a peer that may be hostile: a length or value that does not fit exactly yields `None`, never a
//! panic.

use super::{Introduction, MAX, Message, Queue, Route};
use crate::codec::{Reader, Writer};
use crate::mailbox_name::MailboxName;
use shm::doorbell::DoorbellKind;

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
const SOCKET: u16 = 16;

/// A message that begins with its kind.
fn kind(kind: u16) -> Writer<MAX> {
    Writer::default().u16(kind)
}

impl Message {
    /// The message's bytes: a 16-bit kind and the fields in order of declaration.
    pub fn encode(&self) -> Writer<MAX> {
        match *self {
            Message::Hello { version, pid } => kind(HELLO).u16(version).u32(pid),
            Message::Segment { segment, conns } => kind(SEGMENT).u32(segment).u32(conns),
            Message::Claim {
                offer_cookie,
                claim_cookie,
                segment,
                conn,
            } => kind(CLAIM)
                .u64(offer_cookie)
                .u64(claim_cookie)
                .u32(segment)
                .u32(conn),
            Message::Doorbell { waiter, kind: bell } => {
                kind(DOORBELL).u32(waiter).u8(bell.to_wire())
            }
            Message::Show { cookie, connected } => kind(SHOW).u64(cookie).bool(connected),
            Message::Refuse { cookie, reason } => kind(REFUSE).u64(cookie).u16(reason),
            Message::Leave { segment, conn } => kind(LEAVE).u32(segment).u32(conn),
            Message::Window {
                offer_cookie,
                mailbox,
                returned,
            } => kind(WINDOW)
                .u64(offer_cookie)
                .u32(mailbox.pid)
                .u64(mailbox.random)
                .bool(returned),
            Message::Ask => kind(ASK),
            Message::Queue(queue) => queue.write(kind(QUEUE)),
            Message::Route(route) => route.write(kind(ROUTE)),
            Message::Socket(route) => route.write(kind(SOCKET)),
            Message::Entrust { segment, conn } => kind(ENTRUST).u32(segment).u32(conn),
            Message::Seek {
                cookie,
                connected,
                translated,
            } => kind(SEEK).u64(cookie).bool(connected).bool(translated),
            Message::Introduce(it) => it.write(kind(INTRODUCE)),
            Message::Found {
                cookie,
                other,
                number,
            } => kind(FOUND).u64(cookie).u64(other).u32(number),
        }
    }

    /// Reads a message that must fill `bytes` exactly.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let mut rest = Reader(bytes);
        let message = Message::read(rest.u16()?, &mut rest)?;
        rest.ends(message)
    }

    /// What two programs say to each other.
    fn read(kind: u16, rest: &mut Reader) -> Option<Message> {
        Some(match kind {
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
            WINDOW => Message::Window {
                offer_cookie: rest.u64()?,
                mailbox: MailboxName {
                    pid: rest.u32()?,
                    random: rest.u64()?,
                },
                returned: rest.bool()?,
            },
            kind => Message::read_of_daemon(kind, rest)?,
        })
    }

    /// What a program and a daemon say to each other: its own, or that of the host.
    fn read_of_daemon(kind: u16, rest: &mut Reader) -> Option<Message> {
        Some(match kind {
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
            ASK => Message::Ask,
            QUEUE => Message::Queue(Queue::read(rest)?),
            ROUTE => Message::Route(Route::read(rest)?),
            SOCKET => Message::Socket(Route::read(rest)?),
            ENTRUST => Message::Entrust {
                segment: rest.u32()?,
                conn: rest.u32()?,
            },
            SEEK => Message::Seek {
                cookie: rest.u64()?,
                connected: rest.bool()?,
                translated: rest.bool()?,
            },
            INTRODUCE => Message::Introduce(Introduction::read(rest)?),
            FOUND => Message::Found {
                cookie: rest.u64()?,
                other: rest.u64()?,
                number: rest.u32()?,
            },
            _ => return None,
        })
    }
}

impl Queue {
    fn write(&self, to: Writer<MAX>) -> Writer<MAX> {
        to.u16(self.mtu)
            .put(&self.address)
            .u32(self.receive_slots)
            .u32(self.send_slots)
    }

    fn read(rest: &mut Reader) -> Option<Queue> {
        Some(Queue {
            mtu: rest.u16()?,
            address: rest.take()?,
            receive_slots: rest.u32()?,
            send_slots: rest.u32()?,
        })
    }
}

impl Route {
    fn write(&self, to: Writer<MAX>) -> Writer<MAX> {
        to.u32(self.number)
            .address(self.ours)
            .address(self.theirs)
            .put(&self.source)
            .put(&self.destination)
            .u16(self.mtu)
    }

    fn read(rest: &mut Reader) -> Option<Route> {
        Some(Route {
            number: rest.u32()?,
            ours: rest.address()?,
            theirs: rest.address()?,
            source: rest.take()?,
            destination: rest.take()?,
            mtu: rest.u16()?,
        })
    }
}

impl Introduction {
    fn write(&self, to: Writer<MAX>) -> Writer<MAX> {
        to.u32(self.number)
            .u32(self.uid)
            .bool(self.same_user)
            .bool(self.claims)
    }

    fn read(rest: &mut Reader) -> Option<Introduction> {
        Some(Introduction {
            number: rest.u32()?,
            uid: rest.u32()?,
            same_user: rest.bool()?,
            claims: rest.bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;
    use proptest::prelude::*;

    fn any_end() -> impl Strategy<Value = SocketAddr> {
        any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
    }

    fn any_queue() -> impl Strategy<Value = Queue> {
        any::<(u16, [u8; 6], u32, u32)>().prop_map(|(mtu, address, receive_slots, send_slots)| {
            Queue {
                mtu,
                address,
                receive_slots,
                send_slots,
            }
        })
    }

    fn any_route() -> impl Strategy<Value = Route> {
        let numbers = any::<(u32, u16, [u8; 6], [u8; 6])>();
        (numbers, any_end(), any_end()).prop_map(|(numbers, ours, theirs)| {
            let (number, mtu, source, destination) = numbers;
            Route {
                number,
                ours,
                theirs,
                source,
                destination,
                mtu,
            }
        })
    }

    fn any_introduction() -> impl Strategy<Value = Introduction> {
        any::<(u32, u32, bool, bool)>().prop_map(|(number, uid, same_user, claims)| Introduction {
            number,
            uid,
            same_user,
            claims,
        })
    }

    fn any_of_programs() -> impl Strategy<Value = Message> {
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
            any::<(u64, u32, u64, bool)>().prop_map(|(offer_cookie, pid, random, returned)| {
                Message::Window {
                    offer_cookie,
                    mailbox: MailboxName { pid, random },
                    returned,
                }
            }),
        ]
    }

    fn any_of_daemon() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<(u64, bool)>()
                .prop_map(|(cookie, connected)| Message::Show { cookie, connected }),
            any::<(u64, u16)>().prop_map(|(cookie, reason)| Message::Refuse { cookie, reason }),
            any::<(u32, u32)>().prop_map(|(segment, conn)| Message::Leave { segment, conn }),
            Just(Message::Ask),
            any_queue().prop_map(Message::Queue),
            any_route().prop_map(Message::Route),
            any_route().prop_map(Message::Socket),
            any::<(u32, u32)>().prop_map(|(segment, conn)| Message::Entrust { segment, conn }),
            any::<(u64, bool, bool)>().prop_map(|(cookie, connected, translated)| Message::Seek {
                cookie,
                connected,
                translated,
            }),
            any_introduction().prop_map(Message::Introduce),
            any::<(u64, u64, u32)>().prop_map(|(cookie, other, number)| Message::Found {
                cookie,
                other,
                number
            }),
        ]
    }

    fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![any_of_programs(), any_of_daemon()]
    }

    /// The layout of the largest, byte by byte: programs of two builds of one version may meet.
    #[test]
    fn the_fields_lie_in_order_of_declaration() {
        let route = Message::Route(Route {
            number: 0x0403_0201,
            ours: "10.1.2.3:258".parse().unwrap(),
            theirs: "[fd00::1]:772".parse().unwrap(),
            source: [0xa; 6],
            destination: [0xb; 6],
            mtu: 0x0605,
        });
        let mut bytes = vec![11, 0, 1, 2, 3, 4];
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3, 2, 1]);
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 3]);
        bytes.extend([0xa; 6].into_iter().chain([0xb; 6]).chain([5, 6]));
        assert_eq!(route.encode().as_bytes(), bytes);
        assert_eq!(bytes.len(), MAX);
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
        fn never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0u8..18) {
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
