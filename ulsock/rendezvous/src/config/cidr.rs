//! A block of addresses, such as 10.0.0.0/8, as configuration names it.

use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Option<Cidr> {
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base.parse().ok()?, Some(bits.parse::<u8>().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let width = width(base);
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Cidr { base, bits })
    }

    /// The block of this address alone.
    pub fn of(ip: IpAddr) -> Cidr {
        Cidr {
            base: ip,
            bits: width(ip),
        }
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        same_prefix(self.base, ip, self.bits)
    }

    /// Of two blocks that share an address one lies within the other.
    pub fn overlaps(&self, other: &Cidr) -> bool {
        same_prefix(self.base, other.base, self.bits.min(other.bits))
    }

    /// The same block, named by its first address.
    pub fn tidy(&self) -> Cidr {
        let rest = u32::from(width(self.base) - self.bits);
        let base = match self.base {
            IpAddr::V4(ip) => {
                IpAddr::V4((u32::from(ip).unbounded_shr(rest).unbounded_shl(rest)).into())
            }
            IpAddr::V6(ip) => {
                IpAddr::V6((u128::from(ip).unbounded_shr(rest).unbounded_shl(rest)).into())
            }
        };
        Cidr { base, ..*self }
    }

    /// The address that names it.
    pub fn base(&self) -> IpAddr {
        self.base
    }

    pub fn bits(&self) -> u8 {
        self.bits
    }
}

fn width(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn same_prefix(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let (differs, width) = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(u32::from(a) ^ u32::from(b)), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b), 128),
        _ => return false,
    };
    differs.unbounded_shr(width - u32::from(bits)) == 0
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    #[test]
    fn blocks_contain_their_addresses() {
        assert!(block("10.1.0.0/16").contains("10.1.255.1".parse().unwrap()));
        assert!(!block("10.1.0.0/16").contains("10.2.0.1".parse().unwrap()));
        assert!(block("::/0").contains("fe80::1".parse().unwrap()));
        assert!(!block("::/0").contains("10.0.0.1".parse().unwrap()));
        assert_eq!(Cidr::parse("1.2.3.4/64"), None);
    }

    #[test]
    fn blocks_overlap_when_one_lies_in_the_other() {
        assert!(block("10.0.0.0/8").overlaps(&block("10.9.0.0/16")));
        assert!(block("10.9.0.0/16").overlaps(&block("10.0.0.0/8")));
        assert!(block("fd00::1").overlaps(&block("::/0")));
        assert!(!block("10.9.0.0/16").overlaps(&block("10.8.0.0/16")));
        assert!(!block("0.0.0.0/0").overlaps(&block("::/0")));
    }

    #[test]
    fn a_tidy_block_is_named_by_its_first_address() {
        assert_eq!(block("10.1.2.3/8").tidy().to_string(), "10.0.0.0/8");
        assert_eq!(block("fd00::1/0").tidy().to_string(), "::/0");
        assert_eq!(block("fd00::1").tidy(), block("fd00::1/128"));
    }
}
