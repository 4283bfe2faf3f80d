//! What one slot of an offers table says, and its words.
//!
//! A slot is 16 words in the host's byte order: the head, the offer, and a sum over both. Bytes come
//! from other processes and other uids: they become an [`Offer`] only if every one of them fits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::mailbox_name::MailboxName;

pub(super) const WORDS: usize = 16;
pub(super) type Words = [u64; WORDS];

/// The word that holds the sum over all others.
const SUM: usize = WORDS - 1;

/// Names a connection, alike for both ends: v4-mapped addresses are v4 ones, and scopes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    netns: u64,
    ends: Ends,
}

/// The two ends, first the one that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Inet(SocketAddr, SocketAddr),
    /// The numbers of Unix sockets in the socket file system.
    Unix(u32, u32),
}

/// What stands in a slot where IP connections have their IP version.
const UNIX: u64 = 1;

impl Key {
    /// No namespace has this cookie.
    pub const ANY_NETNS: u64 = 0;

    /// `client` is the side that connected. `netns` is [`Key::ANY_NETNS`] for a connection whose ends may
    /// be in two network namespaces. `None` if the addresses are of different families.
    pub fn new(netns: u64, client: SocketAddr, server: SocketAddr) -> Option<Key> {
        let plain = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let (client, server) = (plain(client), plain(server));
        (client.is_ipv4() == server.is_ipv4()).then_some(Key {
            netns,
            ends: Ends::Inet(client, server),
        })
    }

    /// Two Unix sockets of one network namespace.
    pub fn of_unix(netns: u64, client: u32, server: u32) -> Key {
        let ends = Ends::Unix(client, server);
        Key { netns, ends }
    }

    /// Network namespace, family and ports, addresses.
    fn words(&self) -> [u64; 6] {
        let (client, server) = match self.ends {
            Ends::Inet(client, server) => (client, server),
            Ends::Unix(client, server) => {
                let (client, server) = (client.into(), server.into());
                return [self.netns, UNIX << 32, 0, client, 0, server];
            }
        };
        let family: u64 = if client.is_ipv4() { 4 } else { 6 };
        let ports = u64::from(client.port()) << 16 | u64::from(server.port());
        let [client_high, client_low] = halves(client.ip());
        let [server_high, server_low] = halves(server.ip());
        [
            self.netns,
            family << 32 | ports,
            client_high,
            client_low,
            server_high,
            server_low,
        ]
    }

    /// The inverse of `words`: nothing else is a key.
    fn from_words(words: [u64; 6]) -> Option<Key> {
        let [
            netns,
            ends,
            client_high,
            client_low,
            server_high,
            server_low,
        ] = words;
        if ends >> 32 == UNIX {
            let key = Key::of_unix(netns, client_low as u32, server_low as u32);
            return Some(key).filter(|key| key.words() == words);
        }
        let ip = |high: u64, low: u64| -> IpAddr {
            match ends >> 32 {
                4 => Ipv4Addr::from(low as u32).into(),
                _ => Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
            }
        };
        let client = SocketAddr::new(ip(client_high, client_low), (ends >> 16) as u16);
        let server = SocketAddr::new(ip(server_high, server_low), ends as u16);
        Key::new(netns, client, server).filter(|key| key.words() == words)
    }

    /// Where to look in a table; the same in every process.
    pub(super) fn hash(&self) -> u64 {
        sum(&self.words())
    }
}

fn halves(ip: IpAddr) -> [u64; 2] {
    match ip {
        IpAddr::V4(ip) => [0, u64::from(u32::from(ip))],
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            [(bits >> 64) as u64, bits as u64]
        }
    }
}

/// A connecting side's wish to move a connection off kernel TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub key: Key,
    /// SO_COOKIE of the connecting socket.
    pub cookie: u64,
    /// Where to send the claim.
    pub mailbox: MailboxName,
    /// The offering process.
    pub pid: u32,
}

impl Offer {
    pub(super) fn encode(&self, head: Head) -> Words {
        let mut words = [0; WORDS];
        words[0] = head.0;
        words[1..7].copy_from_slice(&self.key.words());
        words[7] = self.cookie;
        words[8] = u64::from(self.mailbox.pid) << 32 | u64::from(self.pid);
        words[9] = self.mailbox.random;
        words[SUM] = sum(&words[..SUM]);
        words
    }

    /// Reads a slot. The sum finds a torn one even where the order of the reads is unknown, as in
    /// the kernel's copy for pread.
    pub(super) fn decode(words: &Words) -> Option<Offer> {
        let head = Head(words[0]);
        if head.state() != State::Ready {
            return None;
        }
        let offer = Offer {
            key: Key::from_words([words[1], words[2], words[3], words[4], words[5], words[6]])?,
            cookie: words[7],
            mailbox: MailboxName {
                pid: (words[8] >> 32) as u32,
                random: words[9],
            },
            pid: words[8] as u32,
        };
        (offer.encode(head) == *words).then_some(offer)
    }
}

/// The words of a slot that was read as bytes; missing ones are 0, which no sum allows.
pub(super) fn words_of(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut array = [0; 8];
        array.copy_from_slice(chunk);
        *word = u64::from_ne_bytes(array);
    }
    words
}

/// Mixes words into one (the finaliser of splitmix64, chained).
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |state, word| {
        let mixed = state ^ word;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).wrapping_add(0x9e37_79b9_7f4a_7c15)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Ready,
    /// What nobody writes.
    Nonsense,
}

/// A slot's first word: state (2 bits), sequence number (30 bits), pid of the last writer (32 bits).
/// It differs at every use of the slot, so who takes an offer back cannot hit a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head(pub u64);

impl Head {
    const STATE: u64 = 0b11;

    pub fn state(self) -> State {
        match self.0 & Head::STATE {
            0 => State::Free,
            2 => State::Ready,
            _ => State::Nonsense,
        }
    }

    pub fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn with(self, state: State) -> Head {
        let bits = match state {
            State::Free => 0,
            State::Ready => 2,
            State::Nonsense => 1,
        };
        Head(self.0 & !Head::STATE | bits)
    }

    /// The head with which `pid` fills the slot next.
    pub fn next(self, pid: u32) -> Head {
        let sequence = (self.0 as u32 & !(Head::STATE as u32)).wrapping_add(4);
        Head(u64::from(pid) << 32 | u64::from(sequence)).with(State::Ready)
    }
}
