//! Ports: how frames get onto a network and off it, past the kernel's protocols.
//!
//! The engine polls a [`Port`]: it takes received frames one by one, where they lie, writes frames
//! where they will leave from, and tells the kernel once per batch. No port allocates per frame (but
//! for what simulates a network), blocks, or calls a libc function that the preloaded library hooks.

pub mod cable;
pub mod conntrack;
mod features;
mod impaired;
mod interface;
pub mod ivshmem;
pub mod packet;
mod reserve;
pub mod route;
mod sim;
mod sys;
pub mod udp;
mod wanted;
pub mod witness;
pub mod xdp;

use core::time::Duration;

use rustix::io::Errno;

pub use cable::Conditions;
pub use features::Features;
pub use impaired::Impaired;
pub use interface::Interface;
pub use ivshmem::Ivshmem;
pub use packet::PacketPort;
pub use reserve::Reserved;
pub use sim::Sim;
pub use udp::UdpPort;
pub use wanted::Wanted;
pub use xdp::Xdp;

pub use crate::port::{Capabilities, Frame, Port, PortCounters, Trouble};

/// After so long a driver that was busy is asked again: some ten frames of 10 Gb/s.
const RETRY: Duration = Duration::from_micros(20);

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        match errno {
            Errno::NETDOWN => Trouble::Down,
            Errno::NXIO | Errno::NODEV => Trouble::Gone,
            other => Trouble::Failed(other.raw_os_error()),
        }
    }
}
