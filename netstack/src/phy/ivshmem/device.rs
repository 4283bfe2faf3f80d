//! The device of the kernel module: one open file of it is an endpoint.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{self, Errno};

use super::uapi::{self, Bind, Connect, Disconnect, Info, Lookup, Ring, State, Tripwire};
use crate::phy::sys::{Fd, Map, syscall};

#[derive(Debug)]
pub struct Device(Fd);

impl Device {
    pub fn open(path: &Path) -> io::Result<Device> {
        let fd = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device(fd.into()))
    }

    /// # Safety
    /// `request` is that of `structure`.
    unsafe fn call<T>(&self, request: u64, structure: &mut T) -> io::Result<()> {
        let fd = self.0.as_fd().as_raw_fd() as usize;
        let structure = core::ptr::from_mut(structure) as usize;
        // SAFETY: the driver reads and writes a structure of the size that the request names.
        unsafe { syscall(libc::SYS_ioctl, [fd, request as usize, structure])? };
        Ok(())
    }

    pub fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        // SAFETY: its own request.
        unsafe { self.call(Info::REQUEST, &mut info)? };
        match info.version {
            uapi::VERSION => Ok(info),
            _ => Err(Errno::PROTO),
        }
    }

    /// Our own aperture, mapped.
    pub fn bind(&self, length: usize, service: u64) -> io::Result<Map> {
        let mut bind = Bind {
            length: length as u64,
            service,
            ..Bind::default()
        };
        // SAFETY: its own request.
        unsafe { self.call(Bind::REQUEST, &mut bind)? };
        Map::of(&self.0, uapi::APERTURE_OFFSET, length)
    }

    /// Where to find a service in another machine, or in ours.
    pub fn look_up(&self, slot: u64, service: u64) -> io::Result<Lookup> {
        let mut lookup = Lookup {
            slot,
            service,
            ..Lookup::default()
        };
        // SAFETY: its own request.
        unsafe { self.call(Lookup::REQUEST, &mut lookup)? };
        Ok(lookup)
    }

    pub fn connect(&self, found: &Lookup) -> io::Result<Connect> {
        let mut connect = Connect {
            slot: found.slot,
            endpoint: found.endpoint,
            key: found.key,
            ..Connect::default()
        };
        // SAFETY: its own request.
        unsafe { self.call(Connect::REQUEST, &mut connect)? };
        Ok(connect)
    }

    /// The other end's aperture.
    pub fn map(&self, connect: &Connect) -> io::Result<Map> {
        let length = usize::try_from(connect.length).map_err(|_| Errno::NOMEM)?;
        Map::of(&self.0, connect.offset, length)
    }

    pub fn disconnect(&self, connection: u64) {
        let mut disconnect = Disconnect {
            connection,
            ..Disconnect::default()
        };
        // SAFETY: its own request.
        let _ = unsafe { self.call(Disconnect::REQUEST, &mut disconnect) };
    }

    pub fn ring(&self, connection: u64) -> io::Result<()> {
        let mut ring = Ring {
            connection,
            ..Ring::default()
        };
        // SAFETY: its own request.
        unsafe { self.call(Ring::REQUEST, &mut ring) }
    }

    pub fn arm(&self, wire: usize, offset: u64, position: u64) -> io::Result<()> {
        let mut tripwire = Tripwire {
            wire: wire as u64,
            offset,
            position,
            ..Tripwire::default()
        };
        // SAFETY: its own request.
        unsafe { self.call(Tripwire::REQUEST, &mut tripwire) }
    }

    pub fn state(&self) -> io::Result<State> {
        let mut state = State::default();
        // SAFETY: its own request.
        unsafe { self.call(State::REQUEST, &mut state)? };
        Ok(state)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
