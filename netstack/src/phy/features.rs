//! What the hardware of an interface does by itself, as `ethtool -k` shows it.

use std::os::fd::BorrowedFd;
use std::vec;
use std::vec::Vec;

use rustix::io::{self, Errno};

use super::interface::ethtool;

/// linux/ethtool.h: ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_GFEATURES, and the set of the features' names.
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const FEATURE_NAMES: u32 = 4;
const NAME: usize = 32;
/// Features are asked for in words of 32; of each word there are four: available, requested, active, never changed.
const WORD: usize = 32;
const WORDS: usize = 16;
const ACTIVE: usize = 8;
/// More than any kernel has.
const MOST: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// It completes UDP checksums of frames that it sends.
    pub checksums_sent: bool,
    /// It says of frames that it receives whether theirs are right.
    pub checksums_received: bool,
    /// It cuts a frame of several UDP datagrams up.
    pub segments: bool,
}

impl Features {
    /// Of an interface by its name; none of them if the kernel does not say.
    pub fn of(socket: BorrowedFd<'_>, interface: &str) -> Features {
        let Ok(active) = active(socket, interface) else {
            return Features::default();
        };
        let has = |name: &str| active.iter().any(|active| active == name.as_bytes());
        let both = has("tx-checksum-ipv4") && has("tx-checksum-ipv6");
        Features {
            checksums_sent: has("tx-checksum-ip-generic") || both,
            checksums_received: has("rx-checksum"),
            segments: has("tx-udp-segmentation"),
        }
    }
}

/// The names of those that are on.
fn active(socket: BorrowedFd<'_>, interface: &str) -> io::Result<Vec<Vec<u8>>> {
    let count = count(socket, interface)?;
    // struct ethtool_gstrings: command, set, count, names.
    let mut names = vec![0; 12 + count * NAME];
    put(&mut names, 0, GET_STRINGS);
    put(&mut names, 4, FEATURE_NAMES);
    ethtool(socket, interface, &mut names)?;
    // struct ethtool_gfeatures: command, number of words, words.
    let words = count.div_ceil(WORD);
    let mut features = vec![0; 8 + words * WORDS];
    put(&mut features, 0, GET_FEATURES);
    put(&mut features, 4, words as u32);
    ethtool(socket, interface, &mut features)?;
    let is_active = |number: usize| {
        let word = get(&features, 8 + number / WORD * WORDS + ACTIVE);
        word >> (number % WORD) & 1 == 1
    };
    let name = |number: usize| {
        let name = &names[12 + number * NAME..][..NAME];
        name.split(|&byte| byte == 0).next().map(<[u8]>::to_vec)
    };
    Ok((0..count)
        .filter(|&number| is_active(number))
        .filter_map(name)
        .collect())
}

/// How many the kernel knows.
fn count(socket: BorrowedFd<'_>, interface: &str) -> io::Result<usize> {
    // struct ethtool_sset_info: command, nothing, a mask of sets in 64 bits, the length of each.
    let mut info = vec![0; 20];
    put(&mut info, 0, GET_SET_INFO);
    put(&mut info, 8, 1 << FEATURE_NAMES);
    ethtool(socket, interface, &mut info)?;
    let count = get(&info, 16) as usize;
    (count <= MOST).then_some(count).ok_or(Errno::OVERFLOW)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn get(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |word| u32::from_ne_bytes(*word))
}
