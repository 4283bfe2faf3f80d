//! Captures of the link protocol, as Wireshark shows them with docs/ulsock.lua: every field of every kind
//! of packet as it was sent, and whether the CRC fits.

mod pcap;
mod session;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use netstack::wire::body::{Hello, Open, Welcome};
use netstack::wire::frame::{self, Offload};
use netstack::wire::{Kind, Packet};

use session::Sent;
use tests::ends::Ends;
use tests::place::Place;

/// What is asked of every packet, in this order.
const FIELDS: [&str; 29] = [
    "kind",
    "flags",
    "path",
    "length",
    "tag",
    "number",
    "crc",
    "token",
    "offset",
    "credit",
    "ack.path",
    "ack.count",
    "ack.delay",
    "ack.largest",
    "ack.range.first",
    "ack.range.last",
    "ack.ect0",
    "ack.ce",
    "incarnation",
    "own_tag",
    "peer_incarnation",
    "challenge",
    "open.name",
    "open.token",
    "open.send_from",
    "open.receive_from",
    "open.credit",
    "reason",
    "data",
];

/// How many of them come from the body.
const TOLD: usize = 11;

const BAD: &str = "0";
const GOOD: &str = "1";
const UNVERIFIED: &str = "2";

/// Bytes of Ethernet, IPv4 and UDP before a packet.
const HEADERS: usize = 14 + 20 + 8;

fn hosts() -> [[IpAddr; 2]; 2] {
    [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]]
        .map(|pair| pair.map(|host| host.parse().expect("an address")))
}

/// tshark's answer, a row for each frame.
fn tshark(frames: &[Sent], fields: &[String]) -> Vec<Vec<String>> {
    let place = Place::new(Ends::both());
    let capture = place.folder().join("capture.pcap");
    pcap::write(&capture, frames);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ulsock.lua");
    let mut command = Command::new("tshark");
    command
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()));
    command
        .arg("-r")
        .arg(&capture)
        .args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().expect("tshark");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !errors.contains("Lua"),
        "{errors}"
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |line: &str| line.split('|').map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = text.lines().map(row).collect();
    assert_eq!(rows.len(), frames.len());
    rows
}

/// Whether CRCs fit, and what is complained of.
fn verdicts(frames: &[Sent]) -> Vec<(String, String)> {
    let fields = ["ulsock.crc.status", "_ws.expert.message"].map(str::to_owned);
    let pair = |row: Vec<String>| (row[0].clone(), row[1].clone());
    tshark(frames, &fields).into_iter().map(pair).collect()
}

/// What tshark must say about a frame. Numbers as they are there, in decimal.
fn expected(frame: &[u8]) -> Vec<String> {
    let arrival = frame::parse(frame, Offload::default()).expect("a frame");
    let packet = Packet::parse(arrival.payload).expect("a packet");
    let header = packet.header;
    let mut row = vec![
        (header.kind as u8).to_string(),
        arrival.payload[1].to_string(),
        header.path.to_string(),
        packet.body.len().to_string(),
        header.tag.to_string(),
        header.number.to_string(),
        packet.crc.to_string(),
        header.token.to_string(),
        header.offset.to_string(),
        header.credit.to_string(),
    ];
    row.extend(acknowledged(&packet));
    row.extend(told(&packet));
    row
}

fn acknowledged(packet: &Packet<'_>) -> [String; 8] {
    let Some(ack) = packet.ack else {
        return Default::default();
    };
    // Far enough above 2^32 for any range.
    let ranges: Vec<_> = ack
        .ranges(1 << 40 | u64::from(ack.largest()))
        .flatten()
        .collect();
    let ends = |end: &dyn Fn(usize) -> u64| {
        let ends: Vec<String> = (0..ranges.len())
            .map(|i| (end(i) as u32).to_string())
            .collect();
        ends.join(",")
    };
    let marks = ack.marks();
    let count = |count: Option<u32>| count.map_or(String::new(), |count| count.to_string());
    [
        ack.path().to_string(),
        ranges.len().to_string(),
        (ack.delay_nanos() as f64 / 1000.0).to_string(),
        ack.largest().to_string(),
        ends(&|i| *ranges[i].start()),
        ends(&|i| *ranges[i].end()),
        count(marks.map(|marks| marks.capable)),
        count(marks.map(|marks| marks.congested)),
    ]
}

/// What the body says: who is who, the terms of a connection, a reason, bytes.
fn told(packet: &Packet<'_>) -> [String; TOLD] {
    let mut row: [String; TOLD] = Default::default();
    let mut set = |from: usize, numbers: &[u64]| {
        for (field, number) in row[from..].iter_mut().zip(numbers) {
            *field = number.to_string();
        }
    };
    let body = packet.body;
    match packet.header.kind {
        Kind::Hello => {
            let Hello { incarnation, tag } = Hello::parse(body).expect("a body");
            set(0, &[incarnation, tag.into()]);
        }
        Kind::Welcome | Kind::Confirm => {
            let Welcome { me, you, challenge } = Welcome::parse(body).expect("a body");
            set(0, &[me.incarnation, me.tag.into(), you, challenge]);
        }
        Kind::Open | Kind::Accept => {
            let open = Open::parse(body).expect("a body");
            let Open {
                name,
                token,
                send_from,
                receive_from,
                credit,
            } = open;
            set(4, &[name, token, send_from, receive_from, credit]);
        }
        Kind::Reset => set(9, &[u16::from_be_bytes([body[0], body[1]]).into()]),
        Kind::Data => row[10] = body.iter().map(|byte| format!("{byte:02x}")).collect(),
        Kind::Ack | Kind::Credit | Kind::Close | Kind::Ping | Kind::Bye => {}
    }
    row
}

/// tshark writes some numbers in hexadecimal.
fn decimal(text: &str) -> String {
    match text
        .strip_prefix("0x")
        .map(|digits| u64::from_str_radix(digits, 16))
    {
        Some(Ok(number)) => number.to_string(),
        _ => text.to_owned(),
    }
}

fn kind(sent: &Sent) -> Kind {
    let arrival = frame::parse(&sent.bytes, Offload::default()).expect("a frame");
    Packet::parse(arrival.payload)
        .expect("a packet")
        .header
        .kind
}

#[test]
fn every_kind_shows_as_it_was_sent() {
    for hosts in hosts() {
        let frames = session::frames(hosts);
        let kinds: BTreeSet<u8> = frames.iter().map(|sent| kind(sent) as u8).collect();
        assert_eq!(kinds.len(), Kind::ALL.len(), "{kinds:?}");
        let fields = FIELDS.map(|field| format!("ulsock.{field}"));
        let several = tshark(&frames, &fields)
            .iter()
            .zip(&frames)
            .filter(|(row, sent)| {
                let row: Vec<String> = row.iter().map(|text| decimal(text)).collect();
                assert_eq!(row, expected(&sent.bytes), "{FIELDS:?}");
                row[14].contains(',')
            })
            .count();
        assert!(several > 0, "something was lost, and the rest acknowledged");
    }
}

#[test]
fn every_crc_fits_and_nothing_is_malformed() {
    for hosts in hosts() {
        let frames = session::frames(hosts);
        for (verdict, sent) in verdicts(&frames).into_iter().zip(&frames) {
            assert_eq!(
                verdict,
                (GOOD.to_owned(), String::new()),
                "{:?}",
                kind(sent)
            );
        }
    }
}

/// One bit of each packet, anywhere behind the UDP header and not in the CRC itself.
#[test]
fn what_is_damaged_shows() {
    let mut frames = session::frames(hosts()[0]);
    let clean = verdicts(&frames);
    let first = frames
        .iter()
        .position(|sent| kind(sent) == Kind::Data)
        .expect("data");
    let mut unknown = BTreeSet::new();
    for (index, sent) in frames.iter_mut().enumerate().skip(first) {
        let packet = &mut sent.bytes[HEADERS..];
        let place = match index * 13 % packet.len() {
            crc @ 12..16 => crc + 4,
            place => place,
        };
        packet[place] ^= 1 << (index % 8);
        // A damaged tag is that of a link that we do not know.
        if (4..8).contains(&place) {
            unknown.insert(index);
        }
    }
    for (index, (status, complaint)) in verdicts(&frames).into_iter().enumerate() {
        if index < first {
            assert_eq!((status, complaint), clean[index]);
        } else if unknown.contains(&index) {
            assert_eq!(status, UNVERIFIED);
        } else {
            let wrong = status == BAD || complaint.contains("Malformed");
            assert!(
                wrong && !complaint.is_empty(),
                "{index}: {status} {complaint}"
            );
        }
    }
}

#[test]
fn without_the_beginning_nothing_is_claimed_about_crcs() {
    let mut frames = session::frames(hosts()[1]);
    let first = frames
        .iter()
        .position(|sent| kind(sent) == Kind::Data)
        .expect("data");
    for (status, complaint) in verdicts(&frames.split_off(first)) {
        assert_eq!((status.as_str(), complaint.as_str()), (UNVERIFIED, ""));
    }
}
