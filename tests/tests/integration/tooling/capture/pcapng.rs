//! Reads what `ulsock capture` writes: the TCP segments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

const PACKET: u32 = 6;
const STATISTICS: u32 = 5;

pub struct Segment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub number: u32,
    pub acknowledges: u32,
    pub bytes: Vec<u8>,
}

fn word(at: &[u8]) -> u32 {
    u32::from_le_bytes(at[..4].try_into().expect("four bytes"))
}

/// The blocks of a file that may still grow: type and content.
fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let (mut rest, mut blocks) = (file, Vec::new());
    while rest.len() >= 12 {
        let len = word(&rest[4..]) as usize;
        if rest.len() < len {
            break;
        }
        blocks.push((word(rest), &rest[8..len - 4]));
        rest = &rest[len..];
    }
    blocks
}

fn segment(packet: &[u8]) -> Segment {
    let (tcp, from, to) = match packet[0] >> 4 {
        4 => {
            let ip =
                |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four"));
            (20, IpAddr::V4(ip(12)), IpAddr::V4(ip(16)))
        }
        6 => {
            let ip =
                |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).expect("16"));
            (40, IpAddr::V6(ip(8)), IpAddr::V6(ip(24)))
        }
        other => panic!("IP version {other}"),
    };
    let half = |at: usize| u16::from_be_bytes([packet[tcp + at], packet[tcp + at + 1]]);
    let whole = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
    Segment {
        from: SocketAddr::new(from, half(0)),
        to: SocketAddr::new(to, half(2)),
        number: whole(4),
        acknowledges: whole(8),
        bytes: packet[tcp + 20..].to_vec(),
    }
}

/// Nothing if the file is not there yet.
pub fn segments(file: &Path) -> Vec<Segment> {
    let file = std::fs::read(file).unwrap_or_default();
    let blocks = blocks(&file).into_iter();
    let packets = blocks.filter(|(kind, _)| *kind == PACKET);
    let segments = packets.map(|(_, body)| segment(&body[20..20 + word(&body[12..]) as usize]));
    segments.collect()
}

/// Whether it was ended in an orderly way.
pub fn is_whole(file: &Path) -> bool {
    let file = std::fs::read(file).unwrap_or_default();
    blocks(&file).last().is_some_and(|it| it.0 == STATISTICS)
}
