//! The file format pcapng, as far as we write it (draft-ietf-opsawg-pcapng).

use std::io::{self, Write};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// LINKTYPE_RAW: begins with an IPv4 or IPv6 header.
pub const LINK_TYPE: u16 = 101;

const END: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const DESCRIPTION: u16 = 3;
const APPLICATION: u16 = 4;
const RESOLUTION: u16 = 9;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// A block without its type and lengths, which [`write()`] adds.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(mut self, value: u16) -> Body {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Body {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Times and counts: the higher half first.
    fn halves(self, value: u64) -> Body {
        self.u32((value >> 32) as u32).u32(value as u32)
    }

    fn padded(mut self, bytes: &[u8]) -> Body {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn option(self, code: u16, value: &[u8]) -> Body {
        let value = &value[..value.len().min(u16::MAX as usize)];
        self.u16(code).u16(value.len() as u16).padded(value)
    }
}

fn write(out: &mut impl Write, kind: u32, body: &Body) -> io::Result<()> {
    let len = (body.0.len() as u32 + 12).to_le_bytes();
    let parts = [&kind.to_le_bytes()[..], &len, &body.0, &len];
    out.write_all(&parts.concat())
}

pub fn begin(out: &mut impl Write, snaplen: u32) -> io::Result<()> {
    let program = concat!("ulsock ", env!("CARGO_PKG_VERSION"));
    let section = Body::default()
        .u32(0x1a2b_3c4d)
        .u16(1)
        .u16(0)
        .u32(u32::MAX)
        .u32(u32::MAX)
        .option(APPLICATION, program.as_bytes())
        .option(END, &[]);
    write(out, SECTION, &section)?;
    let interface = Body::default()
        .u16(LINK_TYPE)
        .u16(0)
        .u32(snaplen)
        .option(NAME, b"ulsock")
        .option(
            DESCRIPTION,
            b"what programs send by rings and links; headers are made up",
        )
        // Nanoseconds.
        .option(RESOLUTION, &[9])
        .option(END, &[]);
    write(out, INTERFACE, &interface)
}

pub struct Packet<'a> {
    pub time: u64,
    pub bytes: &'a [u8],
    /// Of it are in the file.
    pub snaplen: u32,
    pub comment: Option<&'a str>,
}

pub fn packet(out: &mut impl Write, packet: &Packet<'_>) -> io::Result<()> {
    let captured = packet.bytes.len().min(packet.snaplen as usize);
    let body = Body::default()
        .u32(0)
        .halves(packet.time)
        .u32(captured as u32)
        .u32(packet.bytes.len() as u32)
        .padded(&packet.bytes[..captured]);
    let body = match packet.comment {
        Some(comment) => body.option(COMMENT, comment.as_bytes()).option(END, &[]),
        None => body,
    };
    write(out, PACKET, &body)
}

/// At the end: how many there have been, and how many were missed.
pub fn statistics(out: &mut impl Write, time: u64, all: u64, missed: u64) -> io::Result<()> {
    let body = Body::default()
        .u32(0)
        .halves(time)
        .option(RECEIVED, &all.to_le_bytes())
        .option(DROPPED, &missed.to_le_bytes())
        .option(END, &[]);
    write(out, STATISTICS, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type and content of each block.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = word(&file[4..]) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(word(&file[len - 4..]), len as u32);
            blocks.push((word(file), &file[8..len - 4]));
            file = &file[len..];
        }
        blocks
    }

    #[test]
    fn blocks_have_their_lengths_at_both_ends() {
        let mut file = Vec::new();
        begin(&mut file, 5).unwrap();
        for comment in [None, Some("abc")] {
            let it = Packet {
                time: 1 << 32 | 7,
                bytes: b"1234567",
                snaplen: 5,
                comment,
            };
            packet(&mut file, &it).unwrap();
        }
        statistics(&mut file, 9, 3, 1).unwrap();
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|it| it.0).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, PACKET, PACKET, STATISTICS]);
        let expected = Body::default().u32(0).u32(1).u32(7).u32(5).u32(7);
        let expected = expected.padded(b"12345");
        assert_eq!(blocks[2].1, expected.0);
        let expected = expected.option(1, b"abc").option(0, b"");
        assert_eq!(blocks[3].1, expected.0);
    }
}
