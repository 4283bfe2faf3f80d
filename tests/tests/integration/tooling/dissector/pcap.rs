//! A capture file (pcap, with nanoseconds) of Ethernet frames.

use std::fs;
use std::path::Path;

use super::session::Sent;

const NANOSECONDS: u32 = 0xa1b2_3c4d;
const LONGEST: u32 = 65_535;
const ETHERNET: u32 = 1;

pub fn write(path: &Path, frames: &[Sent]) {
    let mut file = Vec::new();
    let words = |file: &mut Vec<u8>, words: &[u32]| {
        words
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()));
    };
    // Version 2.4 is two halves of a word.
    words(
        &mut file,
        &[NANOSECONDS, 4 << 16 | 2, 0, 0, LONGEST, ETHERNET],
    );
    for Sent { at, bytes } in frames {
        let nanos = at.as_nanos();
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let length = bytes.len() as u32;
        words(&mut file, &[seconds as u32, rest as u32, length, length]);
        file.extend(bytes);
    }
    fs::write(path, file).expect("the capture");
}
