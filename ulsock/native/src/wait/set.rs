//! An epoll set that ulsock knows.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::null;
use std::time::Duration;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, c_int, epoll_event};
use os::door::Door;
use os::epoll::raw_wait_into;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::Timespec;
use sockets::api::{self, Begun};

use crate::start::start;

/// Events that one wait takes.
pub const MOST: usize = 64;

/// Above the numbers that a program uses, and that a preloaded ulsock looks at.
const LEAST_NUMBER: RawFd = 1024;

#[derive(Debug)]
pub struct Set {
    /// Closed by `drop`, after ulsock has let go of it.
    fd: RawFd,
}

impl Set {
    pub fn new() -> io::Result<Set> {
        start();
        let low = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // A low limit of descriptors has no such numbers.
        let fd = rustix::io::fcntl_dupfd_cloexec(&low, LEAST_NUMBER).unwrap_or(low);
        let fd = fd.into_raw_fd();
        api::epoll_opened(fd);
        Ok(Set { fd })
    }

    pub fn add(&self, fd: &impl AsRawFd, events: c_int, key: u64) -> io::Result<()> {
        let events = events.cast_unsigned();
        self.control(
            EPOLL_CTL_ADD,
            fd.as_raw_fd(),
            epoll_event { events, u64: key },
        )
    }

    pub fn remove(&self, fd: &impl AsRawFd) {
        let none = epoll_event { events: 0, u64: 0 };
        let _ = self.control(EPOLL_CTL_DEL, fd.as_raw_fd(), none);
    }

    fn control(&self, op: c_int, fd: RawFd, mut event: epoll_event) -> io::Result<()> {
        // SAFETY: the event lives as long as the calls.
        let verdict = unsafe { api::epoll_ctl(self.fd, op, fd, &mut event) };
        verdict.answer(|| {
            match op {
                EPOLL_CTL_DEL => os::epoll::delete(self.fd, fd),
                _ => os::epoll::add(self.fd, fd, event.events, event.u64),
            }
            .map(|()| 0)
        })?;
        Ok(())
    }

    /// Waits until something has happened, but not longer than that.
    pub fn wait<'a>(
        &self,
        room: &'a mut [MaybeUninit<epoll_event>; MOST],
        time: Option<Duration>,
    ) -> io::Result<&'a [epoll_event]> {
        let (at, max) = (room.as_mut_ptr().cast::<epoll_event>(), MOST as c_int);
        // Of a time that the kernel cannot tell it waits for ever, as good as.
        let left = time.and_then(|time| Timespec::try_from(time).ok());
        let timeout = left.map(|left| libc::timespec {
            tv_sec: left.tv_sec,
            tv_nsec: left.tv_nsec,
        });
        let mut ask_kernel = || raw_wait_into(Door::always_open(), self.fd, room, left, null());
        // SAFETY: as above.
        let told = match unsafe { api::epoll_wait(self.fd, at, max, timeout.as_ref(), null()) } {
            Begun::Verdict(verdict) => verdict.answer(&mut ask_kernel),
            Begun::Plain(doze) => {
                let told = ask_kernel();
                let n = told.map_or(-1, |n| n as c_int);
                // SAFETY: the arguments of the wait.
                match unsafe { doze.end(n, self.fd, at, max, null()) } {
                    Some(verdict) => verdict.answer(&mut ask_kernel),
                    None => told,
                }
            }
        };
        let count = match told {
            Err(Errno::INTR) => 0,
            told => told?,
        };
        // SAFETY: so many have been written.
        Ok(unsafe { std::slice::from_raw_parts(at, count) })
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        let fd = self.fd;
        let _ = api::close(fd).answer(|| {
            // SAFETY: ours, and closed here only.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(0)
        });
    }
}
