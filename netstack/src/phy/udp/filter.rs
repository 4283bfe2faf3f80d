//! The filter of a connected socket: what comes from its peer, and nothing else.
//!
//! The kernel looks for a datagram's socket before it queues it. One that found the socket while it was bound and not
//! yet connected may be queued after it is. So the filter is there before the socket is bound, and stays.

use std::net::{IpAddr, SocketAddr};
use std::vec::Vec;

/// Loads with this offset count from the IP header; others from UDP's (include/uapi/linux/filter.h).
const FROM_IP: u32 = libc::SKF_NET_OFF as u32;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Where the source address is in an IP header.
const SOURCE: u32 = 12;
const SOURCE_6: u32 = 8;

/// Datagrams from this end, whole.
pub fn only_from(peer: SocketAddr) -> Vec<libc::sock_filter> {
    let (at, words): (u32, Vec<u32>) = match peer.ip() {
        IpAddr::V4(ip) => (SOURCE, [u32::from(ip)].into()),
        IpAddr::V6(ip) => {
            let words = ip.octets();
            let words = words.as_chunks::<4>().0.iter();
            (
                SOURCE_6,
                words.map(|word| u32::from_be_bytes(*word)).collect(),
            )
        }
    };
    let offsets = (0..).map(|word: u32| FROM_IP.wrapping_add(at + 4 * word));
    let loads = offsets.zip(&words).map(|(at, word)| (LOAD_WORD, at, *word));
    let checks = [(LOAD_HALF, 0, peer.port().into())]
        .into_iter()
        .chain(loads);
    let mut left = 2 * (words.len() + 1);
    let mut filter = Vec::with_capacity(left + 2);
    for (load, at, value) in checks {
        left -= 2;
        filter.push(instruction(load, 0, at));
        // Past all that is left, and the first of the two ends.
        filter.push(instruction(IF_EQUAL, left as u8 + 1, value));
    }
    filter.extend([instruction(RETURN, 0, u32::MAX), instruction(RETURN, 0, 0)]);
    filter
}

fn instruction(code: u32, unless: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: unless,
        k,
    }
}
