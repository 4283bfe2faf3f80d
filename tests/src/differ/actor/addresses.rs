//! Addresses of a run's sockets, and how outcomes show them: without what differs from run to run.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use libc::{c_int, sockaddr_storage, socklen_t};

use super::place;
use crate::differ::names::{ABSTRACT, PATH};
use crate::differ::program::Step;

/// Where the path of a Unix socket begins in its address.
const PATH_OFFSET: usize = 2;

/// An address and the length that belongs to it.
pub struct Address {
    storage: sockaddr_storage,
    length: socklen_t,
}

impl Address {
    /// The one that a step names: a port of this run, or a number of a Unix socket's name. None of them if negative.
    pub fn of(step: &Step, number: i64) -> Self {
        match step.get("over") {
            PATH | ABSTRACT => Self::unix(step.get("over"), number),
            _ if step.get("v6") != 0 => Self::v6(number as u16),
            _ => Self::v4(number as u16),
        }
    }

    fn empty(family: c_int, length: usize) -> Self {
        let (mut storage, _) = empty_address();
        storage.ss_family = family as u16;
        Self {
            storage,
            length: length as socklen_t,
        }
    }

    /// A port at this run's address.
    fn v4(port: u16) -> Self {
        let mut address = Self::empty(libc::AF_INET, 16);
        // SAFETY: the storage is larger, aligned for all of them, and any bytes are one.
        let v4 = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_in>() };
        v4.sin_addr.s_addr = u32::from_ne_bytes(place().host);
        v4.sin_port = port.to_be();
        address
    }

    fn v6(port: u16) -> Self {
        let mut address = Self::empty(libc::AF_INET6, 28);
        // SAFETY: as above.
        let v6 = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_in6>() };
        v6.sin6_addr.s6_addr[15] = 1;
        v6.sin6_port = port.to_be();
        address
    }

    /// A negative number is no name: bind then lets the kernel choose one.
    fn unix(over: i64, number: i64) -> Self {
        let name = match over {
            _ if number < 0 => Vec::new(),
            PATH => {
                let mut path = path(number).as_os_str().as_bytes().to_vec();
                path.push(0);
                path
            }
            _ => format!("\0{}{number}", abstract_start()).into_bytes(),
        };
        let mut address = Self::empty(libc::AF_UNIX, PATH_OFFSET + name.len());
        // SAFETY: as above.
        let unix = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_un>() };
        for (place, byte) in unix.sun_path.iter_mut().zip(name) {
            *place = byte as libc::c_char;
        }
        address
    }

    pub fn set_family(&mut self, family: c_int) {
        self.storage.ss_family = family as u16;
    }

    pub fn family(&self) -> c_int {
        self.storage.ss_family.into()
    }

    pub fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub fn length(&self) -> socklen_t {
        self.length
    }
}

/// The file of a Unix socket's name.
pub fn path(number: i64) -> std::path::PathBuf {
    place().folder.join(format!("s{number}"))
}

fn abstract_start() -> String {
    format!("differ-{:08x}-s", u32::from_be_bytes(place().host))
}

/// The kind of sockets that a step makes.
pub fn kind(step: &Step) -> c_int {
    match step.get("packets") {
        0 => libc::SOCK_STREAM,
        _ => libc::SOCK_SEQPACKET,
    }
}

pub fn empty_address() -> (sockaddr_storage, socklen_t) {
    // SAFETY: an address of zeroes is valid.
    (unsafe { std::mem::zeroed() }, 128)
}

/// The number of a port of TCP.
pub fn port_of(storage: &sockaddr_storage) -> u16 {
    // SAFETY: as above; both families keep the port in the same place.
    u16::from_be(unsafe { (*(&raw const *storage).cast::<libc::sockaddr_in>()).sin_port })
}

/// An address, with what differs from run to run replaced.
pub fn shown(storage: &sockaddr_storage, length: socklen_t) -> String {
    let mut text = format!("address={length}:{}:", storage.ss_family);
    match i32::from(storage.ss_family) {
        libc::AF_INET if length >= 16 => {
            // SAFETY: the family says that it is one.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes();
            let ip = if ip == place().host {
                "host".to_owned()
            } else {
                format!("{ip:?}")
            };
            write!(text, "{ip}:{}", port(u16::from_be(v4.sin_port))).expect("write to a string");
        }
        libc::AF_INET6 if length >= 28 => {
            // SAFETY: the family says that it is one.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let port = port(u16::from_be(v6.sin6_port));
            write!(text, "{:?}:{port}", v6.sin6_addr.s6_addr).expect("write to a string");
        }
        libc::AF_UNIX => {
            let most = length.min(110) as usize;
            // SAFETY: the storage is longer than that.
            let bytes = unsafe { std::slice::from_raw_parts((&raw const *storage).cast(), most) };
            text = named(bytes);
        }
        _ => {}
    }
    text.replace(' ', "")
}

/// A Unix socket's address: lengths without that of the run's own folder.
fn named(address: &[u8]) -> String {
    let name = address.get(PATH_OFFSET..).unwrap_or_default();
    let folder = place().folder.as_os_str().as_bytes();
    let start = abstract_start();
    let text = match name {
        [] => "unnamed".to_owned(),
        [0, rest @ ..] => match rest.strip_prefix(start.as_bytes()) {
            Some(number) => format!("abstract:{}", String::from_utf8_lossy(number)),
            None => format!("chosen:{}", rest.len()),
        },
        _ => match name.strip_prefix(folder) {
            // With the zero at its end, if the kernel counts that.
            Some(file) => format!("path:{}", file.escape_ascii()),
            None => format!("path:{}", name.len()),
        },
    };
    format!("address=unix:{text}")
}

fn port(port: u16) -> String {
    let base = place().port;
    if port == 0 {
        "none".to_owned()
    } else if (base..base + 16).contains(&port) {
        format!("port{}", port - base)
    } else {
        "ephemeral".to_owned()
    }
}
