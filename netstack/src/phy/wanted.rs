//! Which frames are ours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

/// UDP datagrams to one port: whole ones, in IP headers without options. All else is the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub port: u16,
    /// To these addresses: what the host only forwards is not ours. Empty: to any.
    pub addresses: Vec<IpAddr>,
}

/// More make the programs too long for their jumps.
pub const MOST_ADDRESSES: usize = 16;

/// Offsets in a frame, the same for every program that looks at one.
pub mod at {
    pub const ETHERTYPE: u32 = 12;
    pub const IP: u32 = 14;
    /// IPv4: version and header length; fragment; protocol; destination.
    pub const FRAGMENT: u32 = IP + 6;
    pub const PROTOCOL: u32 = IP + 9;
    pub const DESTINATION: u32 = IP + 16;
    pub const PORT: u32 = IP + 20 + 2;
    /// IPv6: next header; destination.
    pub const NEXT_6: u32 = IP + 6;
    pub const DESTINATION_6: u32 = IP + 24;
    pub const PORT_6: u32 = IP + 40 + 2;
}

/// Values at those.
pub mod is {
    pub const IPV4: u32 = 0x0800;
    pub const IPV6: u32 = 0x86dd;
    /// Version 4, five words of header.
    pub const PLAIN: u32 = 0x45;
    pub const UDP: u32 = 17;
    /// "More fragments", and the offset of this one.
    pub const FRAGMENTED: u32 = 0x3fff;
}

impl Wanted {
    pub fn is_sound(&self) -> bool {
        self.port != 0 && self.addresses.len() <= MOST_ADDRESSES
    }

    pub fn ipv4(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.addresses.iter().filter_map(|ip| match ip {
            IpAddr::V4(ip) => Some(*ip),
            IpAddr::V6(_) => None,
        })
    }

    pub fn ipv6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.addresses.iter().filter_map(|ip| match ip {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => Some(*ip),
        })
    }
}

/// Frames that are ours, and frames that are not: for the tests of every program.
#[cfg(test)]
pub mod sample {
    use std::net::{IpAddr, SocketAddr};
    use std::vec;
    use std::vec::Vec;

    use super::Wanted;
    use crate::wire::Addresses;
    use crate::wire::frame::{Ecn, Offload, Route};

    pub const PORT: u16 = 4690;
    /// Of every port.
    pub const HARDWARE: [u8; 6] = [2, 3, 5, 7, 11, 13];

    /// A frame of 100 bytes to this address and port.
    pub fn frame(to: IpAddr, port: u16) -> Vec<u8> {
        let from: IpAddr = match to {
            IpAddr::V4(_) => [10, 9, 0, 1].into(),
            IpAddr::V6(_) => [0xfd09, 0, 0, 0, 0, 0, 0, 1].into(),
        };
        let addresses = Addresses {
            source: SocketAddr::new(from, PORT),
            destination: SocketAddr::new(to, port),
        };
        let route = Route::new([2; 6], HARDWARE, &addresses).expect("one family");
        let mut bytes = vec![0; 100];
        let length = bytes.len() - route.overhead();
        let offload = Offload::default();
        route
            .emit(&mut bytes, Ecn::Capable, length, offload)
            .expect("it fits");
        bytes
    }

    fn changed(frame: &[u8], at: usize, value: u8) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[at] = value;
        frame
    }

    /// Programs, frames, and whether these are theirs.
    pub fn cases() -> Vec<(Wanted, Vec<u8>, bool)> {
        let here: [IpAddr; 2] = [[10, 9, 0, 2].into(), [0xfd09, 0, 0, 0, 0, 0, 0, 2].into()];
        let elsewhere: [IpAddr; 5] = [
            [10, 9, 0, 3].into(),
            [11, 9, 0, 2].into(),
            [0xfd09, 0, 0, 0, 0, 0, 0, 3].into(),
            [0xfd09, 0, 0, 7, 0, 0, 0, 2].into(),
            [0xfd08, 0, 0, 0, 0, 0, 0, 2].into(),
        ];
        let more: Vec<IpAddr> = vec![[10, 9, 1, 2].into(), [0xfd09, 1, 0, 0, 0, 0, 0, 2].into()];
        let wanted = |addresses| Wanted {
            port: PORT,
            addresses,
        };
        let programs = [
            (wanted(vec![]), true),
            (wanted(here.to_vec()), false),
            (wanted([more.clone(), here.to_vec()].concat()), false),
            (wanted([here.to_vec(), more].concat()), false),
        ];
        let mut cases = Vec::new();
        for (program, takes_all) in programs {
            let mut add = |frame, is_ours| cases.push((program.clone(), frame, is_ours));
            for ip in here {
                add(frame(ip, PORT), true);
                add(frame(ip, PORT + 1), false);
                add(frame(ip, PORT ^ 0x100), false);
                let whole = frame(ip, PORT);
                let headers = if ip.is_ipv4() { 42 } else { 62 };
                for length in 0..whole.len() {
                    add(whole[..length].to_vec(), length >= headers);
                }
                add(changed(&whole, 12, 9), false);
                let protocol = if ip.is_ipv4() { 23 } else { 20 };
                // TCP, and the fragment header of IPv6.
                add(changed(&whole, protocol, 6), false);
                add(changed(&whole, protocol, 44), false);
            }
            let v4 = frame(here[0], PORT);
            for (at, value) in [(14, 0x46), (14, 0x55), (20, 0x20), (20, 1), (21, 1)] {
                add(changed(&v4, at, value), false);
            }
            // "Don't fragment" is no fragment.
            add(changed(&v4, 20, 0x40), true);
            for ip in elsewhere {
                add(frame(ip, PORT), takes_all);
            }
        }
        // Only addresses of the other family.
        for (ip, other) in [(here[0], here[1]), (here[1], here[0])] {
            cases.push((wanted(vec![other]), frame(ip, PORT), false));
        }
        cases
    }
}
