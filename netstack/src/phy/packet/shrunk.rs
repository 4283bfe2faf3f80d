//! Frames that are longer than their interface has become.
//!
//! Frames with wishes may be longer than the MTU, as far as the kernel knows: hardware cuts them up. So it
//! hands them to the driver, and one that the driver refuses stays first in the ring for ever.

use std::os::fd::AsFd;

use rustix::io::{self, Errno};
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, getsockname};

use super::ring::Ring;
use crate::phy::interface::mtu;
use crate::phy::sys::{Fd, Map};
use crate::wire::frame::ETHERNET;

/// Makes the frame that the kernel has to send next one that nobody takes, if the interface is too small for
/// it: it is lost, as on any network. `false`: that is not why it was refused.
pub fn lose_first(socket: &Fd, sending: &Ring, map: &Map) -> bool {
    let first = sending.first_waiting(map);
    let largest = largest(socket).unwrap_or(usize::MAX);
    match first.filter(|&slot| sending.length(map, slot) > largest) {
        Some(slot) => {
            sending.describe(map, slot, ETHERNET);
            true
        }
        None => false,
    }
}

/// Bytes of the largest frame that the interface takes now.
fn largest(socket: &Fd) -> io::Result<usize> {
    let address = getsockname(socket)?;
    if address.address_family() != AddressFamily::PACKET {
        return Err(Errno::INVAL);
    }
    // SAFETY: an address of this family is a `sockaddr_ll`, and the storage has room for any.
    let index = unsafe { (*address.as_ptr().cast::<libc::sockaddr_ll>()).sll_ifindex };
    let name = index_to_name(socket, index as u32)?;
    Ok(ETHERNET + mtu(socket.as_fd(), &name)?)
}
