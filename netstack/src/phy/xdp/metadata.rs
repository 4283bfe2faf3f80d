//! `[W6]` What lies before a frame that is sent and asks for its UDP checksum to be completed: AF_XDP's transmit metadata
//! (`struct xsk_tx_metadata` of linux/if_xdp.h, Documentation/networking/xsk-tx-metadata.rst). The port looks at opening
//! who would complete it; nobody tells later if nobody did.

use std::os::fd::AsFd;

use rustix::io::{self, Errno};

use crate::phy::interface::asker;
use crate::phy::route::message::{GENERIC_HEADER, NetlinkRequest};
use crate::phy::route::netlink::Netlink;
use crate::phy::sys::Fd;
use crate::phy::{Features, Interface};
use crate::wire::frame::Outline;

/// Bytes of it: flags, what is asked for, and a time that we do not ask for.
pub const METADATA: usize = 24;
/// XDP_UMEM_TX_METADATA_LEN: the length is meant. Older kernels do not know it, and say so.
pub const METADATA_FLAG: u32 = 1 << 2;
/// XDP_TX_METADATA: the frame of this descriptor has some.
pub const DESCRIPTOR_FLAG: u32 = 1 << 1;
/// XDP_TXMD_FLAGS_CHECKSUM.
const CHECKSUM: u64 = 1 << 1;
/// Where UDP's checksum is in its header.
const FIELD: u16 = 6;

/// Of a frame; `None` if its checksum is not left to the port.
#[inline]
pub fn of(frame: &[u8]) -> Option<[u8; METADATA]> {
    let outline = Outline::of(frame).filter(|outline| outline.is_open(frame))?;
    let mut bytes = [0; METADATA];
    bytes[..8].copy_from_slice(&CHECKSUM.to_ne_bytes());
    bytes[8..10].copy_from_slice(&(outline.udp() as u16).to_ne_bytes());
    bytes[10..12].copy_from_slice(&FIELD.to_ne_bytes());
    Some(bytes)
}

/// The kernel sends frames by this driver from where they lie (IFF_TX_SKB_NO_LINEAR, `xsk_build_skb_zerocopy` in
/// net/xdp/xsk.c); older ones do not look at the metadata there, and say nothing.
const DEAF_DRIVER: &str = "virtio_net";

/// Whether the interface completes checksums of frames with metadata, of a socket that does without copies, or with them.
pub fn completes(interface: &Interface, zero_copy: bool) -> bool {
    if zero_copy {
        // The driver itself reads the metadata, or passes over it in silence.
        return driver_completes(interface.index).unwrap_or(false);
    }
    // The kernel takes the request over, and computes the checksum itself if the interface cannot: in that case we make none.
    let features = |asker: Fd| Features::of(asker.as_fd(), &interface.name);
    interface.driver != DEAF_DRIVER && asker().is_ok_and(|asker| features(asker).checksums_sent)
}

/// Generic netlink: the controller's number, its command for a family's number, and the attributes of both
/// (linux/genetlink.h).
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NUMBER: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The family of interfaces (linux/netdev.h): NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, NETDEV_A_DEV_XSK_FEATURES, and in
/// the latter NETDEV_XSK_FLAGS_TX_CHECKSUM.
const DEVICES: &[u8] = b"netdev\0";
const GET_DEVICE: u8 = 1;
const INTERFACE_INDEX: u16 = 1;
const SOCKET_FEATURES: u16 = 6;
const COMPLETES: u32 = 1 << 1;

/// Whether the driver completes checksums for sockets without copies, as the kernel tells.
fn driver_completes(index: u32) -> io::Result<bool> {
    let mut kernel = Netlink::generic()?;
    let question = NetlinkRequest::generic(CONTROLLER, GET_FAMILY).with(FAMILY_NAME, DEVICES);
    let family = kernel.ask(question, |answer| {
        answer.attributes(GENERIC_HEADER).half(FAMILY_NUMBER)
    })?;
    let family = family.ok_or(Errno::PROTO)?;
    let index = index.to_ne_bytes();
    let question = NetlinkRequest::generic(family, GET_DEVICE).with(INTERFACE_INDEX, &index);
    // 64 bits, of which we need the lower ones, which come first here.
    let features = kernel.ask(question, |answer| {
        answer.attributes(GENERIC_HEADER).number(SOCKET_FEATURES)
    })?;
    Ok(features.unwrap_or(0) & COMPLETES != 0)
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::wire::Addresses;
    use crate::wire::frame::{Ecn, Offload, Route, overhead};

    // [W6]
    #[test]
    fn of_open_frames_only() {
        let ends = [
            (["10.9.0.1:1", "10.9.0.2:2"], 34),
            (["[fd09::1]:1", "[fd09::2]:2"], 54),
        ];
        for ([source, destination], udp) in ends {
            let addresses = Addresses {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            let route = Route::new([2; 6], [4; 6], &addresses).unwrap();
            let frame = |udp_sent| {
                let mut bytes = vec![7; overhead(&addresses) + 100];
                let offload = Offload {
                    udp_sent,
                    ..Offload::default()
                };
                route.emit(&mut bytes, Ecn::Capable, 100, offload).unwrap();
                bytes
            };
            let expected = [2, 0, 0, 0, 0, 0, 0, 0, udp, 0, 6, 0];
            let metadata = of(&frame(true)).expect("some");
            assert_eq!(metadata[..12], expected);
            assert_eq!(metadata[12..], [0; 12]);
            assert_eq!(of(&frame(false)), None);
            assert_eq!(of(&frame(true)[..60]), None);
        }
    }

    /// The loopback interface has no driver; the kernel knows the question.
    #[test]
    fn the_kernel_tells() {
        const LOOPBACK: u32 = 1;
        assert_eq!(driver_completes(LOOPBACK), Ok(false));
        assert!(driver_completes(u32::MAX).is_err());
    }
}
