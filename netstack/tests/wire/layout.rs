//! The bytes of one packet of each kind, as they are in wire/layout.txt. A change of the format
//! changes `VERSION` with it; `BLESS=1 cargo test -p netstack --test wire` then writes the file anew.

use std::fmt::Write;
use std::path::Path;

use netstack::wire::ack::{Marks, Report};
use netstack::wire::body::{Hello, Open, Welcome};
use netstack::wire::frame::{Ecn, Offload, Route};
use netstack::wire::{Addresses, HEADER, Header, Kind, Packet, Seal, VERSION};

use super::draft::{Acknowledged, Draft, some_addresses, some_seal};

const HELLO: Hello = Hello {
    incarnation: 0x0102_0304_0506_0708,
    tag: 0x1112_1314,
};
const WELCOME: Welcome = Welcome {
    me: HELLO,
    you: 0x2122_2324_2526_2728,
    challenge: 0x3132_3334_3536_3738,
};
const OPEN: Open = Open {
    name: 0x4142_4344_4546_4748,
    token: 0x5152_5354_5556_5758,
    send_from: 0x6162_6364_6566_6768,
    receive_from: 0x7172_7374_7576_7778,
    credit: 0x8182_8384_8586_8788,
};

fn draft(kind: Kind) -> Draft {
    let mut header = Header {
        tag: 0x9192_9394,
        ..Header::of(kind)
    };
    if kind == Kind::Hello {
        header.tag = 0;
    }
    if kind.is_asking() {
        (header.number, header.path) = (0xa1a2_a3a4, 5);
    }
    if kind.has_token() {
        header.token = 0xb1b2_b3b4_b5b6_b7b8;
    }
    if kind.has_token() && kind != Kind::Accept {
        (header.offset, header.credit) = (0xc1c2_c3c4, 0xd1d2_d3d4);
    }
    let body = match kind {
        Kind::Hello => HELLO.emit().to_vec(),
        Kind::Welcome | Kind::Confirm => WELCOME.emit().to_vec(),
        Kind::Open | Kind::Accept => OPEN.emit().to_vec(),
        Kind::Reset => vec![0, 16],
        Kind::Data => b"bytes of the stream".to_vec(),
        Kind::Ping => vec![0; 5],
        Kind::Ack | Kind::Credit | Kind::Close | Kind::Bye => Vec::new(),
    };
    let ack = (kind == Kind::Ack).then(|| acknowledged(None));
    Draft { header, ack, body }
}

fn acknowledged(marks: Option<Marks>) -> Acknowledged {
    let report = Report {
        path: 3,
        delay_nanos: 25_000,
        marks,
    };
    let ranges = vec![0x1_0000_0120..=0x1_0000_0123, 0x1_0000_0100..=0x1_0000_0110];
    Acknowledged { report, ranges }
}

/// One of each kind, and DATA with all that a packet can have.
pub fn packets() -> Vec<(String, Vec<u8>)> {
    let mut packets: Vec<(String, Vec<u8>)> = Kind::ALL
        .iter()
        .map(|&kind| (format!("{kind:?}"), draft(kind)))
        .chain([("Data with everything".to_string(), full())])
        .map(|(name, draft)| (name, draft.bytes(seal_for(draft.header.kind))))
        .collect();
    packets.sort_by_key(|(_, bytes)| bytes[0]);
    packets
}

fn full() -> Draft {
    let mut draft = draft(Kind::Data);
    draft.header.ask = true;
    draft.ack = Some(acknowledged(Some(Marks {
        capable: 0xe1e2_e3e4,
        congested: 0xf1f2_f3f4,
    })));
    draft
}

fn seal_for(kind: Kind) -> Seal {
    match kind {
        Kind::Hello | Kind::Welcome => Seal::stranger(&some_addresses()),
        _ => some_seal(),
    }
}

pub fn seal_of(bytes: &[u8]) -> Seal {
    seal_for(Packet::parse(bytes).expect("well-formed").header.kind)
}

pub fn frames() -> Vec<(String, Vec<u8>)> {
    let v6 = Addresses {
        source: "[fd00::1]:5000".parse().expect("an address"),
        destination: "[fd00::2]:4690".parse().expect("an address"),
    };
    let frame = |addresses| {
        let packet = draft(Kind::Credit).bytes(Seal::link(&addresses, 0x1111, 0x2222));
        let route = Route::new([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &addresses);
        let route = route.expect("one family");
        let mut frame = vec![0; route.overhead()];
        frame.extend_from_slice(&packet);
        let offload = Offload::default();
        route.emit(&mut frame, Ecn::Capable, packet.len(), offload);
        frame
    };
    vec![
        (
            "Credit in a frame, IPv4".to_string(),
            frame(some_addresses()),
        ),
        ("Credit in a frame, IPv6".to_string(), frame(v6)),
    ]
}

/// Four bytes to a word, four words to a line.
fn show(out: &mut String, name: &str, bytes: &[u8]) {
    writeln!(out, "\n{name}").expect("memory");
    for line in bytes.chunks(16) {
        for word in line.chunks(4) {
            out.push(' ');
            word.iter()
                .for_each(|byte| write!(out, "{byte:02x}").expect("memory"));
        }
        out.push('\n');
    }
}

// [W5]
#[test]
fn the_header_has_32_bytes() {
    assert_eq!(HEADER, 32);
    for (name, bytes) in packets() {
        let packet = Packet::parse(&bytes).unwrap();
        if packet.ack.is_none() {
            assert_eq!(bytes.len() - packet.body.len(), 32, "{name}");
        }
    }
}

// A change of the format is a change of the file, and another version.
#[test]
fn is_as_written_down() {
    let mut now = format!("version {VERSION}\n");
    for (name, bytes) in packets().iter().chain(&frames()) {
        show(&mut now, name, bytes);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/layout.txt");
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    if before == now {
        return;
    }
    let version = |text: &str| text.lines().next().map(str::to_string);
    if std::env::var_os("BLESS").is_some() && version(&before) != version(&now) {
        std::fs::write(&file, now).expect("the file");
        return;
    }
    panic!(
        "packets look otherwise than in {}; a new format is a new VERSION\n{now}",
        file.display()
    );
}
