//! The device of the kernel module: one open file of it is an endpoint.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{self, Errno};

use super::uapi::{self, Bind, Connect, Disconnect, Info, Ioctl, Lookup, Ring, State, Tripwire};
use crate::phy::sys::{Fd, Map, syscall};

#[derive(Debug)]
pub struct Device(Fd);

impl Device {
    pub fn open(path: &Path) -> io::Result<Device> {
        let fd = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device(fd.into()))
    }

    fn call<T: Ioctl>(&self, structure: &mut T) -> io::Result<()> {
        let fd = self.0.as_fd().as_raw_fd() as usize;
        let structure = core::ptr::from_mut(structure) as usize;
        // SAFETY: the driver reads and writes a structure of the size that the request names (`Ioctl`).
        unsafe { syscall(libc::SYS_ioctl, [fd, T::REQUEST as usize, structure])? };
        Ok(())
    }

    pub fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        self.call(&mut info)?;
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
        self.call(&mut bind)?;
        Map::of(&self.0, uapi::APERTURE_OFFSET, length)
    }

    /// Where to find a service in another machine, or in ours.
    pub fn look_up(&self, slot: u64, service: u64) -> io::Result<Lookup> {
        let mut lookup = Lookup {
            slot,
            service,
            ..Lookup::default()
        };
        self.call(&mut lookup)?;
        Ok(lookup)
    }

    pub fn connect(&self, found: &Lookup) -> io::Result<Connect> {
        let mut connect = Connect {
            slot: found.slot,
            endpoint: found.endpoint,
            key: found.key,
            ..Connect::default()
        };
        self.call(&mut connect)?;
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
        let _ = self.call(&mut disconnect);
    }

    pub fn ring(&self, connection: u64) -> io::Result<()> {
        let mut ring = Ring {
            connection,
            ..Ring::default()
        };
        self.call(&mut ring)
    }

    pub fn arm(&self, wire: usize, offset: u64, position: u64) -> io::Result<()> {
        let mut tripwire = Tripwire {
            wire: wire as u64,
            offset,
            position,
            ..Tripwire::default()
        };
        self.call(&mut tripwire)
    }

    pub fn state(&self) -> io::Result<State> {
        let mut state = State::default();
        self.call(&mut state)?;
        Ok(state)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
