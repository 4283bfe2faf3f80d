//! Members that the program has removed and may add again soon: event loops of clients do so with
//! every request. Such a member of ours is parked: its kernel registration, which tells only us,
//! stays, and both changes cost no system call.
//!
//! Nobody but us must be able to see the difference. So there are none in a set that is watched from
//! outside, or that another process holds, and a connection that returns to the kernel leaves the
//! set for good.

use std::os::fd::RawFd;

use libc::epoll_event;
use rustix::io::Errno;

use super::member::Member;
use super::state::SetState;
use crate::conn::{Conn, Handle};
use os::epoll as kernel;

impl SetState {
    /// The program removes a member.
    pub fn leave(&mut self, epfd: RawFd, fd: RawFd) -> Result<(), Errno> {
        let ours = |member: &&Member| member.converted.is_some();
        if let Some(member) = self.members.get(&fd).filter(ours) {
            if member.parked {
                return Err(Errno::NOENT);
            }
            if self.park(fd) {
                return Ok(());
            }
        }
        self.remove(fd);
        kernel::delete(epfd, fd)
    }

    pub fn is_parked(&self, fd: RawFd) -> bool {
        self.members.get(&fd).is_some_and(|member| member.parked)
    }

    /// Parks a member of ours, if it can be.
    fn park(&mut self, fd: RawFd) -> bool {
        if self.watched || !self.is_alone() {
            return false;
        }
        if let Some(member) = self.members.get_mut(&fd) {
            member.disable();
            member.parked = true;
            member.ticket = 0;
        }
        true
    }

    /// The program adds a member: if it is parked, and can be ours as before, that is all.
    pub fn unpark(&mut self, handle: Handle, epfd: RawFd, event: epoll_event) -> bool {
        let fd = handle.fd;
        if !self.is_parked(fd) {
            return false;
        }
        let possible = !self.kernel_only && self.is_alone();
        let member = self.members.get_mut(&fd).filter(|member| {
            possible
                && member.handle == handle
                && !Member::asks_exclusively(event.events)
                && Conn::enter(handle).is_some_and(|conn| !conn.is_settled_on_kernel())
        });
        let Some(member) = member else {
            self.evict(fd);
            return false;
        };
        member.parked = false;
        member.epfd = epfd;
        member.change(event.events, event.u64);
        self.arm(fd);
        self.enqueue(fd);
        true
    }

    /// A parked member leaves the kernel's set too.
    pub fn evict(&mut self, fd: RawFd) {
        if self.is_parked(fd) {
            let epfd = self.members.get(&fd).map(|member| member.epfd);
            self.remove(fd);
            let _ = epfd.map(|epfd| kernel::delete(epfd, fd));
        }
    }

    pub fn evict_all(&mut self) {
        let fds: Vec<_> = self.members.keys().copied().collect();
        fds.into_iter().for_each(|fd| self.evict(fd));
    }

    /// Something came for a parked member: nothing more needs to.
    pub fn silence_parked(&mut self, fd: RawFd) {
        let parked = self.members.get_mut(&fd).filter(|member| member.parked);
        if let Some(member) = parked {
            let armed = std::mem::take(&mut member.armed);
            if let Some(conn) = Conn::enter(member.handle) {
                conn.disarm(armed);
            }
        }
    }
}
