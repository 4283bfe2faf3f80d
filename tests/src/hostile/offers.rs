//! Offers tables as bytes: what a peer finds in the victim's, and forges in its own.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::unix::{cookie, netns_cookie};

const SLOTS: u64 = 16384;
const WINDOW: u64 = 16;
const SLOT: u64 = 128;
const HEADER: u64 = 4096;
const READY: u64 = 2;
/// Bytes of a table.
pub const SIZE: u64 = HEADER + SLOTS * SLOT;
const IDENTITY: &[u8; 16] = b"ulsock-o\x01\0\0\0\0\x40\0\0";

type Slot = [u64; 16];

/// What an offer says.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    netns: u64,
    client: SocketAddrV4,
    server: SocketAddrV4,
    pub cookie: u64,
    pub mailbox: (u32, u64),
    pid: u32,
}

fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |state, word| {
        let mixed = state ^ word;
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).wrapping_add(0x9e37_79b9_7f4a_7c15)
    })
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => panic!("these programs talk IPv4"),
    }
}

impl Offer {
    /// The true one of a connection that we have made.
    pub fn of(stream: &TcpStream, mailbox: (u32, u64)) -> Offer {
        Offer {
            netns: netns_cookie(stream.as_raw_fd()),
            client: v4(stream.local_addr().expect("an address")),
            server: v4(stream.peer_addr().expect("an address")),
            cookie: cookie(stream.as_raw_fd()),
            mailbox,
            pid: std::process::id(),
        }
    }

    /// For a connection of somebody else's: between these ports.
    pub fn for_others(self, client: u16, server: u16) -> Offer {
        Offer {
            client: SocketAddrV4::new(*self.client.ip(), client),
            server: SocketAddrV4::new(*self.server.ip(), server),
            ..self
        }
    }

    pub fn with_cookie(self, cookie: u64) -> Offer {
        Offer { cookie, ..self }
    }

    fn key(&self) -> [u64; 6] {
        let ports = u64::from(self.client.port()) << 16 | u64::from(self.server.port());
        let ip = |address: SocketAddrV4| u64::from(u32::from(*address.ip()));
        let ends = 4 << 32 | ports;
        [self.netns, ends, 0, ip(self.client), 0, ip(self.server)]
    }

    fn slot(&self) -> Slot {
        let mut words = [0; 16];
        words[0] = u64::from(self.pid) << 32 | 4 | READY;
        words[1..7].copy_from_slice(&self.key());
        words[7] = self.cookie;
        words[8] = u64::from(self.mailbox.0) << 32 | u64::from(self.pid);
        words[9] = self.mailbox.1;
        words[15] = mix(&words[..15]);
        words
    }

    fn read(words: &Slot) -> Option<Offer> {
        let address =
            |ip: u64, port: u64| SocketAddrV4::new(Ipv4Addr::from(ip as u32), port as u16);
        let ready = words[0] & 3 == READY && words[2] >> 32 == 4;
        ready.then(|| Offer {
            netns: words[1],
            client: address(words[4], words[2] >> 16),
            server: address(words[6], words[2]),
            cookie: words[7],
            mailbox: ((words[8] >> 32) as u32, words[9]),
            pid: words[8] as u32,
        })
    }

    /// Where its slots begin in a table.
    fn place(&self) -> u64 {
        HEADER + mix(&self.key()) % (SLOTS - WINDOW + 1) * SLOT
    }

    /// Its connecting end has this port.
    pub fn is_from(&self, port: u16) -> bool {
        self.client.port() == port
    }
}

/// The table of a user.
pub fn path(run_dir: &Path, uid: u32) -> PathBuf {
    run_dir.join(format!("offers.{uid}"))
}

/// All offers of a user. Holes hold none.
pub fn read(run_dir: &Path, uid: u32) -> Vec<Offer> {
    let Ok(file) = File::open(path(run_dir, uid)) else {
        return Vec::new();
    };
    let mut offers = Vec::new();
    let mut at = HEADER as i64;
    while at < SIZE as i64 {
        // SAFETY: plain integers.
        at = unsafe { libc::lseek(file.as_raw_fd(), at, libc::SEEK_DATA) };
        let mut page = [0; 4096];
        if at < 0 || file.read_exact_at(&mut page, at as u64).is_err() {
            break;
        }
        offers.extend(page.chunks_exact(SLOT as usize).filter_map(in_bytes));
        at += page.len() as i64;
    }
    offers
}

fn in_bytes(bytes: &[u8]) -> Option<Offer> {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    Offer::read(&words)
}

/// A table that we write as we like: that of our own user.
pub struct Table(File);

impl Table {
    pub fn open(run_dir: &Path, uid: u32) -> io::Result<Table> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o644).open(path(run_dir, uid))?;
        if file.metadata()?.len() == 0 {
            file.set_len(SIZE)?;
            file.write_all_at(IDENTITY, 0)?;
        }
        Ok(Table(file))
    }

    pub fn publish(&self, offer: &Offer) {
        let bytes: Vec<u8> = offer.slot().iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.write(offer.place(), &bytes);
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, at).expect("write a table");
    }

    pub fn set_length(&self, length: u64) {
        self.0.set_len(length).expect("the length of a table");
    }
}
