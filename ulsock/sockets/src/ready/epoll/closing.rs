//! What becomes of a set's members when numbers close that they are registered by, and when one of those
//! numbers comes back.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use super::Entry;
use super::member::{Member, Moved};
use super::set::Set;
use super::state::SetState;
use crate::runtime::handle::Handle;
use crate::state::record::flag;
use os::fds::duplicate_high;
use rendezvous::reason::Reason;

impl Set {
    /// The last number of this process closes. With a duplicate alive (in a child, or wherever it was
    /// passed to, `shared`) the kernel goes on telling about a closed number, and we could no longer
    /// change its registration: it goes back to the program's own, and the connection with it. What is left in a ring is
    /// told by us (`closed.rs`).
    /// `moved`: members of it may be watched at numbers of our own.
    pub fn last_closes(&self, fd: RawFd, number: u32, shared: bool, moved: bool) {
        let Some(mut held) = self.hold_raw() else {
            return;
        };
        let state = held.state();
        let moved = if moved {
            state.moved(number)
        } else {
            Vec::new()
        };
        if state.owner != os::pid::get() {
            // Its parent's registrations stay; but our numbers for them would keep the socket open.
            state.leave_to_owner(fd);
            return moved.into_iter().for_each(|fd| state.leave_to_owner(fd));
        }
        if shared {
            state.leave_to_kernel(fd);
            return moved.into_iter().for_each(|fd| state.leave_to_kernel(fd));
        }
        state.evict(fd);
        state.remove(fd);
        for fd in moved {
            state.take_out(fd);
        }
    }

    /// A number closes, and `other` of the same connection stays: the kernel goes on telling about
    /// the closed one, and so do we. A member that is not ours yet stays the kernel's for good.
    pub fn one_closes(&self, fd: RawFd, other: Handle) {
        let Some(mut held) = self.hold_own() else {
            return;
        };
        let state = held.state();
        state.evict(fd);
        let Some(member) = state.members.get(&fd) else {
            return;
        };
        if member.converted.is_some() {
            // SAFETY: one of the program's own numbers.
            let socket = unsafe { BorrowedFd::borrow_raw(other.fd) };
            if let Ok(own) = duplicate_high(socket) {
                let to = other.at(own.as_raw_fd());
                let awake = self.sleepers.load(Ordering::Relaxed) == 0;
                state.move_to(
                    fd,
                    to,
                    Some(Moved {
                        _own: own,
                        from: fd,
                    }),
                    awake,
                );
                return self.wake(state);
            }
            state.give_up(fd, Reason::Call);
        } else if let Some(record) = other.record() {
            record.set(flag::PINNED);
            record.set_reason(Reason::Call);
        }
        state.remove(fd);
    }

    /// A number has come to mean the connection again that it was closed for: the registration is
    /// the program's to change.
    pub fn comes_back(&self, handle: Handle) {
        let Some(mut held) = self.hold_own() else {
            return;
        };
        let state = held.state();
        let from_here = |fd: &RawFd| {
            let moved = state.members.get(fd).and_then(|m| m.moved.as_ref());
            moved.is_some_and(|moved| moved.from == handle.fd)
        };
        if let Some(fd) = state.moved(handle.number).into_iter().find(from_here) {
            state.move_to(fd, handle, None, self.all_are_up());
            self.wake(state);
        }
    }

    /// Moved members of a connection, which is about to be another socket.
    pub fn take_out_moved(&self, number: u32) -> Vec<Entry> {
        let Some(mut held) = self.hold_own() else {
            return Vec::new();
        };
        let state = held.state();
        let moved = state.moved(number).into_iter();
        moved.filter_map(|fd| state.take_out(fd)).collect()
    }
}

impl SetState {
    /// The kernel alone has the registration from now on, but for what is left in a ring.
    fn leave_to_kernel(&mut self, fd: RawFd) {
        self.evict(fd);
        self.give_up(fd, Reason::Call);
        self.note_closed(fd);
        self.remove(fd);
    }

    /// In a child that has not used the set: the process that it is inherited from goes on telling.
    fn leave_to_owner(&mut self, fd: RawFd) {
        self.note_closed(fd);
        let is_ours = |member: &Member| member.converted.is_some();
        if self.members.get(&fd).is_some_and(is_ours) {
            drop(self.members.remove(&fd));
        }
    }
}
