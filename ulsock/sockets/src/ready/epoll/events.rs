//! What we register in the kernel for a member of an epoll set whose readiness comes from us.

use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};

const INPUT: u32 = (EPOLLIN | EPOLLPRI) as u32;
const EDGES: u32 = (EPOLLRDHUP | EPOLLET) as u32;
/// A converted member's kernel registration.
pub const OURS: u32 = INPUT | EPOLLOUT as u32 | EDGES;

/// The same in a set that is watched from outside, where an event that stands in the kernel's list shows: output is
/// asked for only while there is none, and bytes only if the member `wants` to hear of them.
pub fn ours_watched(wants: u32, output: bool) -> u32 {
    let input = match wants & EPOLLIN as u32 {
        0 => wants & INPUT,
        _ => INPUT,
    };
    input | EDGES | if output { EPOLLOUT as u32 } else { 0 }
}
