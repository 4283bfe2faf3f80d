//! Copies of what a program puts into rings, for `ulsock capture`.
//!
//! The memory of a family has a switch in its header and a circle of copies ([`netstack::circle`]) behind its records. Who
//! captures, from another process, gives the circle its memory, says in the switch until when copies are wanted, and
//! marks the records (`flag::COPIED`): a program of which nobody wants copies tests that flag together with others. A
//! capture that is killed leaves a time that soon is past. Who may write there is who may open the memory of a program in
//! /proc: its user and root.

mod switch;
mod tap;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicU64;

use netstack::circle::{ABOUT, Circle, MOST};
use netstack::in_shared_memory;
use netstack::ring::Sink;
use rustix::time::{ClockId, clock_gettime};

use crate::state::process_group::ProcessGroup;
use crate::state::record::{Record, flag};
pub use switch::{SLOTS, Switch};
pub use tap::{Begun, Capture, Totals};

/// Bytes of the circle. Without a capture they have no memory.
pub const BYTES: usize = 8 << 20;
const WORDS: usize = BYTES / 8;

/// The circle as it lies behind the records.
#[repr(C, align(4096))]
pub struct Copies([AtomicU64; WORDS]);

in_shared_memory!(Copies { 0 });

impl Copies {
    pub fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Nanoseconds since 1970. The only clock that is the same in all namespaces.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

/// A copy: bytes that a program put into a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Nanoseconds since 1970, from before the receiver could see them.
    pub time: u64,
    pub pid: u32,
    /// Together they name the connection within its program.
    pub record: u32,
    pub generation: u32,
    /// By a link to another host.
    pub by_link: bool,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Of the first byte in its direction, and of the first that the sender had not read of the other one.
    pub offset: u64,
    pub read: u64,
    pub bytes: Vec<u8>,
}

/// What all copies of one send say.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    pub time: u64,
    pub number: u32,
    pub record: &'a Record,
    pub by_link: bool,
    pub read: u64,
}

fn address_words(address: Option<SocketAddr>) -> ([u64; 2], u64) {
    let Some(address) = address else {
        return ([0; 2], 0);
    };
    let bits = match address.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    };
    ([(bits >> 64) as u64, bits as u64], address.port().into())
}

fn address([high, low]: [u64; 2], port: u64) -> SocketAddr {
    let bits = u128::from(high) << 64 | u128::from(low);
    SocketAddr::new(Ipv6Addr::from(bits).to_canonical(), port as u16)
}

impl Sent<'_> {
    fn about(&self, offset: u64) -> [u64; ABOUT] {
        let (local, port) = address_words(self.record.local());
        let (peer, peer_port) = address_words(self.record.peer());
        let generation = self
            .record
            .generation
            .load(std::sync::atomic::Ordering::Relaxed);
        [
            self.time,
            offset,
            self.read,
            u64::from(generation) << 32 | u64::from(self.number),
            u64::from(os::pid::get()) << 32 | u64::from(self.by_link),
            peer_port << 16 | port,
            local[0],
            local[1],
            peer[0],
            peer[1],
        ]
    }
}

impl Copied {
    /// Any words are some copy.
    fn new(about: &[u64; ABOUT], bytes: Vec<u8>) -> Copied {
        let [time, offset, read, use_of_record, sender, ports, a, b, c, d] = *about;
        Copied {
            time,
            pid: (sender >> 32) as u32,
            record: use_of_record as u32,
            generation: (use_of_record >> 32) as u32,
            by_link: sender & 1 == 1,
            local: address([a, b], ports & 0xffff),
            peer: address([c, d], ports >> 16 & 0xffff),
            offset,
            read,
            bytes,
        }
    }
}

/// Takes the bytes of one send out of the ring and into the circle, where a ring's edge or their number cuts them into
/// several entries.
pub struct Copier<'a> {
    circle: Circle<'a>,
    switch: &'a Switch,
    sent: Sent<'a>,
    offset: u64,
}

impl<'a> Copier<'a> {
    pub fn new(family: &'a ProcessGroup, sent: Sent<'a>, offset: u64) -> Copier<'a> {
        Copier {
            circle: family.circle(),
            switch: &family.header().capture,
            sent,
            offset,
        }
    }
}

impl Sink for Copier<'_> {
    unsafe fn take(&mut self, from: *const u8, len: usize) {
        let mut done = 0;
        while done < len {
            let n = (len - done).min(MOST);
            let about = self.sent.about(self.offset);
            // SAFETY: the caller has `len` bytes at `from`; these are within them.
            let words = unsafe { Words::new(from.add(done), n) };
            let is_on = || self.switch.is_on(self.sent.time);
            self.circle.put(&about, n, words, is_on);
            self.offset += n as u64;
            done += n;
        }
    }
}

/// Bytes that another process may write meanwhile, a word at a time; the last one is filled up with zeros.
struct Words {
    at: *const u8,
    left: usize,
}

impl Words {
    /// # Safety
    /// `at` is valid for reads of `len` bytes as long as this lives.
    unsafe fn new(at: *const u8, len: usize) -> Words {
        Words { at, left: len }
    }
}

impl Iterator for Words {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let n = self.left.min(8);
        if n == 0 {
            return None;
        }
        let mut word = [0; 8];
        // SAFETY: `left` bytes can be read at `at`, and `n` of them fit into a word.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at, word.as_mut_ptr(), n);
            self.at = self.at.add(n);
        }
        self.left -= n;
        Some(u64::from_ne_bytes(word))
    }
}

/// A connection whose sends begin to be ours: from its first byte in a ring on, if a capture is on.
pub fn note_begin(family: &ProcessGroup, record: &Record) {
    let switch = &family.header().capture;
    // The packets of a capture are TCP's.
    if switch.is_used() && switch.is_on(now()) && !record.is_unix() {
        record.set(flag::COPIED);
    }
}

/// Before bytes go into a ring, on a record that is marked: when, if they are to be copied. A mark that nobody needs any
/// more goes.
pub fn time_of_copy(family: &ProcessGroup, record: &Record) -> Option<u64> {
    let (switch, now) = (&family.header().capture, now());
    if switch.is_on(now) {
        return Some(now);
    }
    record.clear(flag::COPIED);
    // Who switched it on at this moment has set the mark before we cleared it, or finds none and sets it later.
    if switch.is_on(now) {
        record.set(flag::COPIED);
    }
    None
}

#[cfg(test)]
mod tests;
