//! What the host decides about a link.

use alloc::vec::Vec;
use core::time::Duration;

use crate::wire::Addresses;

/// Who we are. The host takes all three at random, anew at every start.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    pub incarnation: u64,
    /// By which we know packets of this link.
    pub tag: u32,
    /// `[H2]` The key of our challenges.
    pub secret: [u64; 2],
}

/// `[R8]` One way to the peer and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub outgoing: Addresses,
    pub incoming: Addresses,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub identity: Identity,
    /// One to eight.
    pub ways: Vec<Way>,
    /// Bytes of IP that the port can send at once.
    pub mtu: usize,
    /// `[X2]` Connections at a time.
    pub most_connections: u32,
    /// `[X2]` Packets in flight on a path.
    pub most_packets: usize,
    /// `[R7]` After so long without an answer a link is dead.
    pub patience: Duration,
    /// `[P1]` The first number of every path, the same at both ends. Anything but zero is for tests.
    pub first_number: u64,
    /// `[G3]` Mark packets as capable of ECN.
    pub ecn: bool,
}

impl Config {
    pub fn new(identity: Identity, ways: Vec<Way>) -> Config {
        Config {
            identity,
            ways,
            mtu: 1500,
            most_connections: 1 << 16,
            most_packets: 1 << 14,
            patience: Duration::from_secs(3),
            first_number: 0,
            ecn: true,
        }
    }
}
