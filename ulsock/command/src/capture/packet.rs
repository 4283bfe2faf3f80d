//! A copy as the packet that would have carried it: IPv4 or IPv6 and TCP, with sequence numbers from stream offsets and
//! checksums that are right. No packet is made up that carries no copy: there is no handshake and no end.

use std::net::IpAddr;

use sockets::capture::Copied;

const TCP: u8 = 6;
const TCP_HEADER: usize = 20;
const ACK_PUSH: u8 = 0x18;

/// One's complement sum of 16-bit words, RFC 1071; an odd byte is the higher one of its word.
fn sum(start: u32, bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => u32::from(word[0]) << 8,
    });
    // At most 32 Ki words: no overflow.
    start + words.sum::<u32>()
}

fn checksum(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The first byte of a stream has number 1, as behind a SYN with number 0.
fn number(offset: u64) -> [u8; 4] {
    (offset as u32).wrapping_add(1).to_be_bytes()
}

fn tcp_header(copied: &Copied) -> [u8; TCP_HEADER] {
    let mut header = [0; TCP_HEADER];
    header[0..2].copy_from_slice(&copied.local.port().to_be_bytes());
    header[2..4].copy_from_slice(&copied.peer.port().to_be_bytes());
    header[4..8].copy_from_slice(&number(copied.offset));
    header[8..12].copy_from_slice(&number(copied.read));
    header[12] = (TCP_HEADER as u8 / 4) << 4;
    header[13] = ACK_PUSH;
    // Rings have no window; this one is never full.
    header[14..16].copy_from_slice(&[0xff, 0xff]);
    header
}

/// The IP header, and the sum of what TCP's checksum takes from it.
fn ip_header(copied: &Copied, len: usize) -> (Vec<u8>, u32) {
    let pseudo = u32::from(TCP) + len as u32;
    match (copied.local.ip(), copied.peer.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0];
            header[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
            header.extend(from.octets());
            header.extend(to.octets());
            let sum_of_all = checksum(sum(0, &header));
            header[10..12].copy_from_slice(&sum_of_all);
            let pseudo = sum(pseudo, &header[12..]);
            (header, pseudo)
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let mut header = vec![0x60, 0, 0, 0, 0, 0, TCP, 64];
            header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            header.extend(octets(from));
            header.extend(octets(to));
            let pseudo = sum(pseudo, &header[8..]);
            (header, pseudo)
        }
    }
}

/// A copy is short enough for one packet: [`netstack::circle::MOST`].
pub fn packet(copied: &Copied) -> Vec<u8> {
    let (mut packet, pseudo) = ip_header(copied, TCP_HEADER + copied.bytes.len());
    let mut header = tcp_header(copied);
    let all = checksum(sum(sum(pseudo, &header), &copied.bytes));
    header[16..18].copy_from_slice(&all);
    packet.extend(header);
    packet.extend(&copied.bytes);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use netstack::circle::MOST;

    fn copied(ends: [&str; 2], bytes: Vec<u8>) -> Copied {
        let [local, peer] = ends.map(|end| end.parse().unwrap());
        Copied {
            time: 1,
            pid: 2,
            record: 3,
            generation: 4,
            by_link: false,
            local,
            peer,
            offset: 0xffff_fffe,
            read: 7,
            bytes,
        }
    }

    /// With its checksum in it a sum is all ones.
    fn is_right(sum: u32) -> bool {
        checksum(sum) == [0, 0]
    }

    const V4: [&str; 2] = ["10.1.2.3:80", "10.255.0.9:50000"];
    const V6: [&str; 2] = ["[fd00::1]:80", "[fe80::1234:5678:9abc:def0]:50000"];

    #[test]
    fn checksums_are_right() {
        for len in [0, 1, 2, 333, 4096, MOST - 1, MOST] {
            let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + n / 256) as u8).collect();
            let v4 = packet(&copied(V4, bytes.clone()));
            assert!(is_right(sum(0, &v4[..20])));
            let tcp = &v4[20..];
            let pseudo = sum(u32::from(TCP) + tcp.len() as u32, &v4[12..20]);
            assert!(is_right(sum(pseudo, tcp)), "{len}");
            assert_eq!(v4[2..4], (v4.len() as u16).to_be_bytes());
            let v6 = packet(&copied(V6, bytes.clone()));
            let tcp = &v6[40..];
            let pseudo = sum(u32::from(TCP) + tcp.len() as u32, &v6[8..40]);
            assert!(is_right(sum(pseudo, tcp)), "{len}");
            assert_eq!(v6[4..6], (tcp.len() as u16).to_be_bytes());
            assert_eq!((&v4[40..], &v6[60..]), (&bytes[..], &bytes[..]));
        }
    }

    #[test]
    fn numbers_go_round() {
        let packet = packet(&copied(V4, vec![1]));
        assert_eq!(packet[24..28], [0xff; 4]);
        assert_eq!(packet[28..32], [0, 0, 0, 8]);
    }

    /// What a program says of itself may be anything.
    #[test]
    fn ends_of_two_kinds() {
        let packet = packet(&copied([V4[0], V6[1]], vec![0; 5]));
        assert_eq!((packet[0], packet.len()), (0x60, 65));
    }
}
