//! Ports for test servers, from below the kernel's ephemeral range so that no client takes them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// Processes that run beside each other begin so far apart: what is free may not be so for long.
const APART: u32 = 97;

/// A TCP port that nobody listens on.
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id().wrapping_mul(APART) % u32::from(COUNT)) as u16;
    (0..COUNT)
        .map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT)
        .find(|&port| TcpListener::bind(("0.0.0.0", port)).is_ok())
        .expect("no free port")
}
