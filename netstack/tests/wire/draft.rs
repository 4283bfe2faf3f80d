//! A packet before it is written, and all that there can be.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use netstack::wire::ack::{self, Marks, Report};
use netstack::wire::{Addresses, HEADER, Header, Kind, LONGEST_HEAD, PATHS, Seal, body, packet};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub struct Draft {
    pub header: Header,
    pub ack: Option<Acknowledged>,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Acknowledged {
    pub report: Report,
    /// From the largest down.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl Draft {
    /// The whole packet.
    pub fn bytes(&self, seal: Seal) -> Vec<u8> {
        let mut out = vec![0; LONGEST_HEAD];
        let written = self.ack.as_ref().map(|acknowledged| {
            let ranges = acknowledged.ranges.iter().cloned();
            ack::emit(&mut out[HEADER..], &acknowledged.report, ranges).expect("room")
        });
        let head = HEADER + written.map_or(0, |written| written.length);
        out.truncate(head);
        let fixed = out.first_chunk_mut().expect("a header");
        self.header.emit(fixed, written, self.body.len());
        let crc = seal.head(&out).over(&self.body);
        out.extend_from_slice(&self.body);
        packet::seal(&mut out, crc);
        out
    }
}

pub fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL.to_vec())
}

/// Numbers that were received, as the receiver keeps them: apart by at least one.
pub fn ranges(most: usize) -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    let piece = (0u64..300, 1u64..300);
    (1u64 << 40.., vec(piece, 1..=most)).prop_map(|(largest, pieces)| {
        let mut high = largest;
        let cut = |(length, gap)| {
            let low = high - length;
            let range = low..=high;
            high = low - gap - 1;
            range
        };
        pieces.into_iter().map(cut).collect()
    })
}

pub fn reports() -> impl Strategy<Value = Report> {
    let marks =
        (any::<u32>(), any::<u32>()).prop_map(|(capable, congested)| Marks { capable, congested });
    // Units of the field.
    let delays = any::<u16>().prop_map(|units| 250 * u64::from(units));
    let parts = (0..PATHS as u8, delays, proptest::option::of(marks));
    parts.prop_map(|(path, delay_nanos, marks)| Report {
        path,
        delay_nanos,
        marks,
    })
}

fn acknowledged() -> impl Strategy<Value = Acknowledged> {
    (reports(), ranges(ack::RANGES)).prop_map(|(report, ranges)| Acknowledged { report, ranges })
}

/// What a kind allows in its body.
fn bodies(kind: Kind) -> BoxedStrategy<Vec<u8>> {
    let of = |length| vec(any::<u8>(), length).boxed();
    match kind {
        Kind::Data => vec(any::<u8>(), 1..2000).boxed(),
        Kind::Ping => vec(Just(0), 0..2000).boxed(),
        Kind::Hello => of(body::HELLO),
        Kind::Welcome | Kind::Confirm => of(body::WELCOME),
        Kind::Open | Kind::Accept => of(body::OPEN),
        Kind::Reset => of(body::RESET),
        Kind::Ack | Kind::Credit | Kind::Close | Kind::Bye => of(0),
    }
}

fn headers(kind: Kind) -> impl Strategy<Value = Header> {
    let fields = (
        any::<bool>(),
        0..PATHS as u8,
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<(u32, u32)>(),
    );
    fields.prop_map(move |(ask, path, tag, number, token, (offset, credit))| {
        let mut header = Header {
            path,
            ..Header::of(kind)
        };
        if kind != Kind::Hello {
            header.tag = tag;
        }
        if kind.is_asking() {
            (header.ask, header.number) = (ask, number);
        }
        if kind.has_token() {
            header.token = token;
        }
        if kind.has_token() && kind != Kind::Accept {
            (header.offset, header.credit) = (offset, credit);
        }
        header
    })
}

pub fn drafts() -> impl Strategy<Value = Draft> {
    kinds().prop_flat_map(|kind| {
        let ack = match kind {
            Kind::Hello | Kind::Welcome | Kind::Confirm => Just(None).boxed(),
            Kind::Ack => acknowledged().prop_map(Some).boxed(),
            _ => proptest::option::of(acknowledged()).boxed(),
        };
        (headers(kind), ack, bodies(kind)).prop_map(|(header, ack, body)| Draft {
            header,
            ack,
            body,
        })
    })
}

/// Two ends of one family.
pub fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(from, to)| (from.into(), to.into()));
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(from, to)| (from.into(), to.into()));
    let ports = any::<(u16, u16)>();
    (prop_oneof![v4, v6], ports).prop_map(|((from, to), (source, destination))| Addresses {
        source: SocketAddr::new(from, source),
        destination: SocketAddr::new(to, destination),
    })
}

/// A way, for tests to which it does not matter.
pub fn some_addresses() -> Addresses {
    Addresses {
        source: "10.0.0.1:5000".parse().expect("an address"),
        destination: "10.0.0.2:4690".parse().expect("an address"),
    }
}

pub fn some_seal() -> Seal {
    Seal::link(&some_addresses(), 0x1111, 0x2222)
}
