//! Unix addresses, cookies and descriptors of all sorts, by libc: what std has no call for.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The result of a libc call, or its errno.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// The address of a Unix socket.
pub struct Address {
    address: libc::sockaddr_un,
    length: usize,
}

impl Address {
    pub fn file(path: &Path) -> Address {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        Address::of(&bytes)
    }

    pub fn abstract_name(name: &str) -> Address {
        Address::of(&[b"\0", name.as_bytes()].concat())
    }

    fn of(bytes: &[u8]) -> Address {
        // SAFETY: all zero is an address without a name.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as u16;
        assert!(bytes.len() <= address.sun_path.len(), "a long path");
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len();
        Address { address, length }
    }

    pub fn bind(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: pointer and length describe the address.
        check(unsafe { libc::bind(fd, self.pointer(), self.length as u32) }).map(drop)
    }

    pub fn connect(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: pointer and length describe the address.
        check(unsafe { libc::connect(fd, self.pointer(), self.length as u32) }).map(drop)
    }

    fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.address).cast()
    }
}

/// One of the socket's 64-bit options.
fn number(fd: RawFd, option: c_int) -> u64 {
    let (mut value, mut length) = (0_u64, 8);
    let to = (&raw mut value).cast();
    // SAFETY: the value is a local of that length.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, to, &mut length) };
    assert_eq!(done, 0, "getsockopt {option}");
    value
}

/// SO_COOKIE: names a socket for as long as the machine runs.
pub fn cookie(fd: RawFd) -> u64 {
    number(fd, libc::SO_COOKIE)
}

/// SO_NETNS_COOKIE.
pub fn netns_cookie(fd: RawFd) -> u64 {
    const SO_NETNS_COOKIE: c_int = 71;
    number(fd, SO_NETNS_COOKIE)
}

fn owned(fd: c_int) -> OwnedFd {
    let fd = check(fd).expect("a descriptor");
    // SAFETY: the call has given us this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// An eventfd; `flags` as for the call.
pub fn eventfd(flags: c_int) -> OwnedFd {
    // SAFETY: plain integers.
    owned(unsafe { libc::eventfd(0, flags | libc::EFD_CLOEXEC) })
}

/// Two Unix sockets of this kind, connected to each other.
pub fn socket_pair(kind: c_int) -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the array has room for two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }).expect("a pair");
    ends.map(owned)
}

/// A datagram socket that leads to a service with a name.
pub fn led_to_service(path: &Path) -> [OwnedFd; 2] {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain integers.
    let new = || owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) });
    let (service, client) = (new(), new());
    let address = Address::file(path);
    address.bind(service.as_raw_fd()).expect("a service");
    address.connect(client.as_raw_fd()).expect("its client");
    [client, service]
}

/// Becomes another user, for good.
pub fn become_user(uid: u32) {
    // SAFETY: plain integers and an empty list.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(uid, uid, uid), 0);
        assert_eq!(libc::setresuid(uid, uid, uid), 0);
    }
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, signal: c_int) {
    // SAFETY: plain integers.
    unsafe { libc::kill(pid as i32, signal) };
}
