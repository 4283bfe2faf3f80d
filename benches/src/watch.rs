//! The ways to wait for many sockets at once, behind one face. By libc, as programs call it.

use std::io;
use std::os::fd::RawFd;

use clap::ValueEnum;

use crate::epoll::Epoll;

#[derive(Clone, Copy, ValueEnum)]
pub enum Way {
    Epoll,
    Poll,
    Select,
}

/// Waits for all of its sockets to be readable.
pub enum Watch {
    Epoll(Epoll),
    Poll(Vec<libc::pollfd>),
    Select(Select),
}

impl Watch {
    pub fn new(way: Way) -> io::Result<Watch> {
        Ok(match way {
            Way::Epoll => Watch::Epoll(Epoll::new()?),
            Way::Poll => Watch::Poll(Vec::new()),
            Way::Select => Watch::Select(Select::default()),
        })
    }

    pub fn add(&mut self, fd: RawFd) -> io::Result<()> {
        match self {
            Watch::Epoll(epoll) => epoll.add(fd),
            Watch::Poll(fds) => {
                let (events, revents) = (libc::POLLIN, 0);
                fds.push(libc::pollfd {
                    fd,
                    events,
                    revents,
                });
                Ok(())
            }
            Watch::Select(select) => select.add(fd),
        }
    }

    /// Before it is closed; epoll does not need to be told.
    pub fn remove(&mut self, fd: RawFd) {
        match self {
            Watch::Epoll(_) => {}
            Watch::Poll(fds) => fds.retain(|entry| entry.fd != fd),
            Watch::Select(select) => select.fds.retain(|known| *known != fd),
        }
    }

    /// Fills `ready` with what can be read now; sleeps until there is something.
    pub fn wait(&mut self, ready: &mut Vec<RawFd>) -> io::Result<()> {
        match self {
            Watch::Epoll(epoll) => epoll.wait(ready),
            Watch::Poll(fds) => poll(fds, ready),
            Watch::Select(select) => select.wait(ready),
        }
    }
}

fn poll(fds: &mut [libc::pollfd], ready: &mut Vec<RawFd>) -> io::Result<()> {
    ready.clear();
    // SAFETY: the entries outlive the call.
    if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let told = fds.iter().filter(|entry| entry.revents != 0);
    ready.extend(told.map(|entry| entry.fd));
    Ok(())
}

#[derive(Default)]
pub struct Select {
    fds: Vec<RawFd>,
}

impl Select {
    fn add(&mut self, fd: RawFd) -> io::Result<()> {
        if fd as usize >= libc::FD_SETSIZE {
            return Err(io::Error::other("more sockets than select can have"));
        }
        self.fds.push(fd);
        Ok(())
    }

    fn wait(&self, ready: &mut Vec<RawFd>) -> io::Result<()> {
        ready.clear();
        // SAFETY: a set is plain bits, of which none is set.
        let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
        for &fd in &self.fds {
            // SAFETY: numbers that do not fit were refused.
            unsafe { libc::FD_SET(fd, &mut set) };
        }
        let most = self.fds.iter().max().map_or(0, |most| most + 1);
        let none = std::ptr::null_mut();
        // SAFETY: the set outlives the call.
        if unsafe { libc::select(most, &mut set, none, none, none.cast()) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: numbers that do not fit into a set were refused.
        let told = self
            .fds
            .iter()
            .filter(|&&fd| unsafe { libc::FD_ISSET(fd, &set) });
        ready.extend(told);
        Ok(())
    }
}
