//! Frames between host 1 and host 2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use netstack::phy::{Capabilities, Port};
use netstack::time::Instant;
use netstack::wire::frame::{Ecn, Offload, overhead};
use netstack::wire::{Addresses, frame};

/// Where ours go to.
pub const PORT: u16 = 4690;
/// Where they come from.
pub const FROM: u16 = 5000;

/// Time that passes.
pub fn now() -> Instant {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64 + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

pub fn address(family: Family, host: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 9, 0, host).into(),
        Family::V6 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// A way that can still be changed.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub source: [u8; 6],
    pub destination: [u8; 6],
    pub addresses: Addresses,
}

impl Route {
    pub fn headers(&self) -> frame::Route {
        frame::Route::new(self.source, self.destination, &self.addresses).expect("one family")
    }
}

/// The way from a host to the other one.
pub fn route(family: Family, from: u8, here: Capabilities, there: Capabilities) -> Route {
    Route {
        source: here.address,
        destination: there.address,
        addresses: Addresses {
            source: SocketAddr::new(address(family, from), FROM),
            destination: SocketAddr::new(address(family, 3 - from), PORT),
        },
    }
}

/// Least bytes of a frame with a datagram in it.
pub fn least(family: Family) -> usize {
    let ip = address(family, 1);
    overhead(&Addresses {
        source: SocketAddr::new(ip, FROM),
        destination: SocketAddr::new(ip, PORT),
    })
}

/// Writes a frame of `length` bytes, which depend on `seed`.
pub fn write(into: &mut [u8], route: &Route, length: usize, seed: u64) {
    write_for(Offload::default(), into, route, length, seed);
}

/// The same, for a port that does so much by itself.
pub fn write_for(offload: Offload, into: &mut [u8], route: &Route, length: usize, seed: u64) {
    let start = overhead(&route.addresses);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ length as u64;
    for piece in into[start..length].chunks_mut(8) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let word = state.rotate_left(17).to_le_bytes();
        piece.copy_from_slice(&word[..piece.len()]);
    }
    let headers = route.headers();
    let written = headers.emit(into, Ecn::Capable, length - start, offload);
    assert_eq!(written, Some(length));
}

/// The same, alone.
pub fn frame(route: &Route, length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    write(&mut bytes, route, length, seed);
    bytes
}

/// The same, for a port that does so much by itself.
pub fn frame_for(offload: Offload, route: &Route, length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    write_for(offload, &mut bytes, route, length, seed);
    bytes
}

/// What a port receives of a frame. One that has the kernel check checksums does not see that of IPv6.
pub fn seen(port: &impl Port, mut frame: Vec<u8>) -> Vec<u8> {
    const CHECKSUM: Range<usize> = 60..62;
    if port.capabilities().offload.udp_received && frame[12..14] == [0x86, 0xdd] {
        frame[CHECKSUM].fill(0);
    }
    frame
}

/// Leaves one frame to the port, which has room.
pub fn commit(port: &mut impl Port, bytes: &[u8]) {
    let slot = port.slot().expect("room");
    slot[..bytes.len()].copy_from_slice(bytes);
    port.commit(bytes.len());
}

/// Sends one frame: the port has room.
pub fn post(port: &mut impl Port, bytes: &[u8]) {
    commit(port, bytes);
    port.flush(now()).expect("to send");
}

/// The next frame, which must come soon.
pub fn fetch(port: &mut impl Port) -> Vec<u8> {
    await_frame(port, 2000).expect("a frame")
}

/// The next frame, if one comes within so many milliseconds.
pub fn await_frame(port: &mut impl Port, milliseconds: u64) -> Option<Vec<u8>> {
    let end = now() + std::time::Duration::from_millis(milliseconds);
    loop {
        if let Some(frame) = port.receive(now()) {
            return Some(frame.bytes.to_vec());
        }
        if now() > end {
            return None;
        }
        std::thread::yield_now();
    }
}
