//! The classic BPF program that lets only our frames into the ring. It runs in the kernel before a
//! frame is copied.

use std::vec;
use std::vec::Vec;

use libc::sock_filter;

use crate::phy::wanted::{Wanted, at, is};

/// Where a jump goes: on, or away.
#[derive(Clone, Copy)]
enum To {
    Next,
    Drop,
    /// So many instructions on.
    Skip(usize),
}

enum FilterStep {
    Load {
        size: u32,
        at: u32,
    },
    /// If equal, and if not.
    Equal(u32, To, To),
    /// If any of the bits is set, and if none.
    Any(u32, To, To),
    Accept,
    Drop,
}

use FilterStep::{Accept, Any, Drop, Equal, Load};

const BYTE: u32 = libc::BPF_B;
const HALF: u32 = libc::BPF_H;
const WORD: u32 = libc::BPF_W;
/// As many bytes as there are.
const ALL: u32 = u32::MAX;
/// Where the kernel shows the addressee of a frame: PACKET_HOST is zero.
const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

/// The program. It is short enough for every jump as long as `wanted` is sound.
pub fn filter(wanted: &Wanted) -> Vec<sock_filter> {
    let (v4, v6) = (ipv4(wanted), ipv6(wanted));
    let mut steps = vec![
        Load {
            size: BYTE,
            at: KIND,
        },
        Equal(libc::PACKET_HOST.into(), To::Next, To::Drop),
        Load {
            size: HALF,
            at: at::ETHERTYPE,
        },
        Equal(is::IPV4, To::Next, To::Skip(v4.len())),
    ];
    steps.extend(v4);
    steps.push(Equal(is::IPV6, To::Next, To::Drop));
    steps.extend(v6);
    steps.push(Drop);
    assemble(&steps)
}

fn ipv4(wanted: &Wanted) -> Vec<FilterStep> {
    let mut steps = vec![
        Load {
            size: BYTE,
            at: at::IP,
        },
        Equal(is::PLAIN, To::Next, To::Drop),
        Load {
            size: HALF,
            at: at::FRAGMENT,
        },
        Any(is::FRAGMENTED, To::Drop, To::Next),
        Load {
            size: BYTE,
            at: at::PROTOCOL,
        },
        Equal(is::UDP, To::Next, To::Drop),
    ];
    if !wanted.addresses.is_empty() {
        steps.push(Load {
            size: WORD,
            at: at::DESTINATION,
        });
        let addresses: Vec<u32> = wanted.ipv4().map(u32::from).collect();
        // Those not reached yet, and the drop after them, are skipped.
        for (place, address) in addresses.iter().enumerate() {
            let rest = addresses.len() - 1 - place;
            steps.push(Equal(*address, To::Skip(rest + 1), To::Next));
        }
        steps.push(Drop);
    }
    steps.extend(port(wanted, at::PORT));
    steps
}

fn ipv6(wanted: &Wanted) -> Vec<FilterStep> {
    let mut steps = vec![
        Load {
            size: BYTE,
            at: at::NEXT_6,
        },
        Equal(is::UDP, To::Next, To::Drop),
    ];
    if !wanted.addresses.is_empty() {
        let addresses: Vec<u128> = wanted.ipv6().map(u128::from).collect();
        for (place, address) in addresses.iter().enumerate() {
            let rest = addresses.len() - 1 - place;
            for word in 0..4 {
                let value = (address >> (96 - 32 * word)) as u32;
                let load = Load {
                    size: WORD,
                    at: at::DESTINATION_6 + 4 * word,
                };
                // A wrong word goes on with the next address.
                let wrong = To::Skip(2 * (3 - word as usize));
                let right = if word == 3 {
                    To::Skip(8 * rest + 1)
                } else {
                    To::Next
                };
                steps.extend([load, Equal(value, right, wrong)]);
            }
        }
        steps.push(Drop);
    }
    steps.extend(port(wanted, at::PORT_6));
    steps
}

fn port(wanted: &Wanted, at: u32) -> [FilterStep; 4] {
    // UDP's last field, four bytes on: a load beyond the end of the frame drops it.
    let (size, end) = (HALF, at + 4);
    [
        Load { size, at },
        Equal(wanted.port.into(), To::Next, To::Drop),
        Load { size, at: end },
        Accept,
    ]
}

fn assemble(steps: &[FilterStep]) -> Vec<sock_filter> {
    let last = steps.len() - 1;
    let one = |(place, step): (usize, &FilterStep)| {
        let distance = |to: To| match to {
            To::Next => 0,
            To::Skip(count) => count as u8,
            To::Drop => (last - place - 1) as u8,
        };
        let (code, k, jt, jf) = match *step {
            Load { size, at } => (libc::BPF_LD | libc::BPF_ABS | size, at, 0, 0),
            Equal(value, yes, no) => (libc::BPF_JEQ, value, distance(yes), distance(no)),
            Any(bits, yes, no) => (libc::BPF_JSET, bits, distance(yes), distance(no)),
            Accept => (libc::BPF_RET, ALL, 0, 0),
            Drop => (libc::BPF_RET, 0, 0, 0),
        };
        let class = match step {
            Equal(..) | Any(..) => libc::BPF_JMP | libc::BPF_K,
            _ => 0,
        };
        sock_filter {
            code: (class | code) as u16,
            jt,
            jf,
            k,
        }
    };
    steps.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, recv, send, socketpair};
    use rustix::net::{SocketFlags, SocketType};

    use super::*;
    use crate::phy::sys::attach_filter;
    use crate::phy::wanted::{MOST_ADDRESSES, sample};

    /// The kernel itself runs the program: a filter works on every kind of socket.
    struct FilteredPair(OwnedFd, OwnedFd);

    impl FilteredPair {
        fn new(wanted: &Wanted) -> FilteredPair {
            let flags = SocketFlags::NONBLOCK;
            let (into, out) =
                socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).expect("a pair");
            attach_filter(&out, &filter(wanted)).expect("a sound program");
            FilteredPair(into, out)
        }

        fn lets_through(&self, frame: &[u8]) -> bool {
            let sent = send(&self.0, frame, SendFlags::empty());
            assert_eq!(sent, Ok(frame.len()));
            let mut bytes = [0; 2048];
            match recv(&self.1, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, length)) => length == frame.len(),
                Err(_) => false,
            }
        }
    }

    #[test]
    fn lets_ours_through() {
        for (wanted, frame, is_ours) in sample::cases() {
            let gate = FilteredPair::new(&wanted);
            assert_eq!(gate.lets_through(&frame), is_ours, "{wanted:?} {frame:?}");
        }
    }

    #[test]
    fn the_longest_is_sound() {
        let v6 = |n: usize| IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, n as u16]);
        let addresses: Vec<IpAddr> = (0..MOST_ADDRESSES).map(v6).collect();
        for address in &addresses {
            let wanted = Wanted {
                port: sample::PORT,
                addresses: addresses.clone(),
            };
            let gate = FilteredPair::new(&wanted);
            assert!(gate.lets_through(&sample::frame(*address, sample::PORT)));
            assert!(!gate.lets_through(&sample::frame(v6(99), sample::PORT)));
        }
    }
}
