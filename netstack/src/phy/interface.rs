//! A network interface, as the kernel knows it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::string::String;

use rustix::io::{self, Errno};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::sys::{Fd, syscall};

/// What `ETHTOOL_GDRVINFO` gives (linux/ethtool.h, struct ethtool_drvinfo); the driver's name comes first.
const DRIVER_INFO: u32 = 3;
const DRIVER_INFO_SIZE: usize = 196;
const DRIVER_NAME: core::ops::Range<usize> = 4..36;

/// One of Ethernet's kind, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub name: String,
    pub mtu: usize,
    pub address: [u8; 6],
    /// The kernel's name of its driver, like `veth` or `mlx5_core`; empty if it has none.
    pub driver: String,
}

/// struct ifreq (linux/if.h), with the union as bytes.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    value: Value,
}

#[repr(C, align(8))]
struct Value([u8; 24]);

impl Interface {
    /// Bytes of IP that the one of this name takes now, of whatever kind it is.
    pub fn mtu_of(name: &str) -> io::Result<usize> {
        mtu(asker()?.as_fd(), name)
    }

    /// By name, in the network namespace of the calling thread. `EPFNOSUPPORT` if it is no Ethernet.
    pub fn find(name: &str) -> io::Result<Interface> {
        let socket = asker()?;
        let index = name_to_index(&socket, name)?;
        let ask = |what| ask(socket.as_fd(), what, name, [0; 24]);
        let hardware = ask(libc::SIOCGIFHWADDR)?;
        if u16::from_ne_bytes([hardware[0], hardware[1]]) != libc::ARPHRD_ETHER {
            return Err(Errno::PFNOSUPPORT);
        }
        let mut address = [0; 6];
        address.copy_from_slice(&hardware[2..8]);
        Ok(Interface {
            index,
            name: name.into(),
            mtu: mtu(socket.as_fd(), name)?,
            address,
            driver: driver(socket.as_fd(), name).unwrap_or_default(),
        })
    }
}

/// A socket to ask about interfaces with.
pub fn asker() -> io::Result<Fd> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None).map(Fd::from)
}

/// What it is now.
pub fn mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let [a, b, c, d, ..] = ask(socket, libc::SIOCGIFMTU, name, [0; 24])?;
    Ok(u32::from_ne_bytes([a, b, c, d]) as usize)
}

fn ask(
    socket: BorrowedFd<'_>,
    what: libc::c_ulong,
    name: &str,
    value: [u8; 24],
) -> io::Result<[u8; 24]> {
    let mut request = InterfaceRequest {
        name: [0; 16],
        value: Value(value),
    };
    let name = name.as_bytes();
    let room = request.name.get_mut(..name.len()).ok_or(Errno::NODEV)?;
    room.copy_from_slice(name);
    let fd = socket.as_raw_fd() as usize;
    let args = [fd, what as usize, &raw mut request as usize];
    // SAFETY: the kernel reads and writes a struct ifreq; where `value` holds a pointer, whoever
    // called us knows what it points to.
    unsafe { syscall(libc::SYS_ioctl, args)? };
    Ok(request.value.0)
}

/// Asks the interface's driver. The kernel reads and writes a structure of linux/ethtool.h, which begins with its
/// command; `structure` has room for all of it.
pub fn ethtool(socket: BorrowedFd<'_>, name: &str, structure: &mut [u8]) -> io::Result<()> {
    let mut value = [0; 24];
    let pointer = structure.as_mut_ptr() as usize;
    value[..size_of::<usize>()].copy_from_slice(&pointer.to_ne_bytes());
    ask(socket, libc::SIOCETHTOOL, name, value)?;
    Ok(())
}

fn driver(socket: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let mut info = [0u8; DRIVER_INFO_SIZE];
    info[..4].copy_from_slice(&DRIVER_INFO.to_ne_bytes());
    ethtool(socket, name, &mut info)?;
    let name = &info[DRIVER_NAME];
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
