//! Our program on an interface, and the map that names the sockets.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{self, Errno};

use super::bpf;
use super::program::{Verdict, program};
use crate::phy::sys::Fd;
use crate::phy::{Interface, Wanted};

/// Queues beyond this have no place in the map.
pub const MOST_QUEUES: u32 = 256;

/// Where in the kernel the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On the kernel's own buffers: works with every driver, and leaves it its offloads.
    Generic,
    /// In the driver.
    Native,
}

/// Drivers that lose nothing with a program of their own, and can do without copies
/// (`XDP_ZEROCOPY` in the kernel's sources). On veth it takes the kernel's offloads away, and with
/// virtio it needs queues that the host may not give.
const GOOD_DRIVERS: [&str; 5] = ["i40e", "ice", "igc", "ixgbe", "mlx5_core"];

impl Mode {
    pub fn best(interface: &Interface) -> Mode {
        if GOOD_DRIVERS.contains(&interface.driver.as_str()) {
            Mode::Native
        } else {
            Mode::Generic
        }
    }

    /// XDP_FLAGS_SKB_MODE and XDP_FLAGS_DRV_MODE (linux/if_link.h).
    fn flags(self) -> u32 {
        match self {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        }
    }
}

/// Why the program is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else's program sits on the interface: we do not replace it.
    Occupied,
    /// CAP_BPF and CAP_NET_ADMIN are needed.
    Forbidden,
    /// The driver cannot, in this mode or with this MTU.
    Unsupported,
    Failed(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        match errno {
            // Ours or theirs in the same mode; one of the other mode (net/core/dev.c, `dev_xdp_attach`).
            Errno::BUSY | Errno::EXIST => Refusal::Occupied,
            Errno::PERM | Errno::ACCESS => Refusal::Forbidden,
            Errno::OPNOTSUPP | Errno::RANGE => Refusal::Unsupported,
            other => Refusal::Failed(other),
        }
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refusal::Occupied => f.write_str("another XDP program is attached to the interface"),
            Refusal::Forbidden => f.write_str("XDP needs CAP_BPF and CAP_NET_ADMIN"),
            Refusal::Unsupported => f.write_str("the driver does not support XDP like this"),
            Refusal::Failed(errno) => write!(f, "the XDP program could not be attached: {errno}"),
        }
    }
}

/// The program is there as long as this is. One serves all queues of an interface.
#[derive(Debug)]
pub struct Steering {
    interface: Interface,
    mode: Mode,
    map: Fd,
    /// It goes with its descriptor, also if we die.
    _link: Fd,
}

impl Steering {
    /// In the network namespace of the calling thread.
    pub fn attach(interface: &Interface, wanted: &Wanted, mode: Mode) -> Result<Steering, Refusal> {
        if !wanted.is_sound() {
            return Err(Refusal::Failed(Errno::INVAL));
        }
        let map = bpf::socket_map(MOST_QUEUES)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&map.as_fd());
        let code = program(wanted, interface.address, Verdict::Map(number));
        let loaded = bpf::load(&code)?;
        let link = bpf::attach(loaded.as_fd(), interface.index, mode.flags())?;
        Ok(Steering {
            interface: interface.clone(),
            mode,
            map,
            _link: link,
        })
    }

    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        bpf::set_socket(self.map.as_fd(), queue, socket)
    }
}
