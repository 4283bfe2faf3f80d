//! How the members of a set are woken by their peers: a waiter with its bells, boards, tripwires.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use libc::{EPOLLET, EPOLLIN};
use smallvec::SmallVec;

use super::state::SetState;
use super::tag;
use super::view::{View, WatchedBoard};
use crate::conn::Conn;
use crate::conn::ready::Armed;
use os::epoll as kernel;
use rendezvous::pair::PairSegment;
use shm::order::Stamp;
use shm::waiter;

/// So many that have something at once need no memory.
const FEW: usize = 16;

impl SetState {
    /// A waiter for the set, a bell in the kernel's set, a board in the member's segment.
    pub(super) fn wire(&mut self, fd: RawFd, epfd: RawFd, conn: &Conn<'_>) -> bool {
        if self.waiter.is_none() {
            self.waiter = waiter::take();
        }
        let Some(waiter) = self
            .waiter
            .filter(|waiter| conn.link.pair.hand_over(waiter))
        else {
            return false;
        };
        for bell in waiter.bells().skip(self.bells) {
            let bell = bell.wait_fd().as_raw_fd();
            if kernel::add(epfd, bell, self.bell_events(), tag::bell()).is_err() {
                return false;
            }
            self.bells += 1;
        }
        let Some(view) = self.view(&conn.link.segment, conn.link.side) else {
            return false;
        };
        let (board, record) = (view.number, conn.handle.number);
        view.add(conn.link.conn, WatchedBoard { fd, record });
        if let Some(member) = self.members.get_mut(&fd) {
            member.name = waiter.number | (board as u32 + 1) << 16;
        }
        true
    }

    /// Who waits for the set from outside must find a bell as long as it rings.
    pub(super) fn bell_events(&self) -> u32 {
        (if self.watched {
            EPOLLIN
        } else {
            EPOLLIN | EPOLLET
        }) as u32
    }

    fn view(&mut self, segment: &Arc<PairSegment>, side: usize) -> Option<&mut View> {
        let known = self.boards.iter().position(|view| view.is_of(segment));
        let index = match known {
            Some(index) => index,
            None => {
                self.boards.push(View::new(segment, side)?);
                self.boards.len() - 1
            }
        };
        self.boards.get_mut(index)
    }

    /// Puts the member's wires up. If that is impossible the connection goes to the kernel, whose
    /// events the converted registration still brings.
    pub fn arm(&mut self, fd: RawFd) {
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        let Some(conn) = Conn::enter(member.handle) else {
            return;
        };
        if let Some(slot) = member.armed.data {
            // Level-triggered: the next byte after those that were read; edge: after those told of.
            let seen = if member.is_edge() { member.told.end } else { 0 };
            conn.arm_data_at(slot, member.name, seen);
        }
        let missing = if member.armed.data.is_some() {
            libc::POLLOUT
        } else {
            libc::POLLIN | libc::POLLOUT
        };
        if let Some(slot) = member.armed.space.take() {
            conn.disarm(Armed {
                space: Some(slot),
                ..Armed::default()
            });
        }
        let wanted = (member.wanted() | libc::POLLIN) & missing;
        member.armed.capped = false;
        match conn.arm(wanted, member.name) {
            Some(armed) => {
                member.armed.data = member.armed.data.or(armed.data);
                member.armed.space = armed.space;
                member.armed.capped = armed.capped;
            }
            // On the link again, it would ring nobody.
            None if conn.is_nic() => conn.wait_by_kernel_for_good(),
            None => conn.wait_by_kernel(),
        }
        if member.armed.capped {
            self.stalled.insert(fd);
        } else {
            self.stalled.remove(&fd);
        }
        if self.watched && member.converted.is_some() {
            let asked = member.to_ask(true, &conn);
            if member.asked != asked {
                member.asked = asked;
                member.echoes = true;
                let _ = kernel::modify(member.epfd, fd, asked, tag::member(fd));
                self.confirm(fd);
            }
        }
    }

    /// Readiness does not come from us any more.
    pub(super) fn release(&mut self, fd: RawFd) {
        let member = self.members.get_mut(&fd);
        if let Some(registration) = member.and_then(|member| member.converted.take()) {
            registration.free();
            self.take_wires_down(fd);
        }
    }

    pub(super) fn take_wires_down(&mut self, fd: RawFd) {
        self.stalled.remove(&fd);
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        member.ticket = 0;
        let armed = std::mem::take(&mut member.armed);
        let Some(conn) = Conn::enter(member.handle) else {
            return;
        };
        conn.disarm(armed);
        self.leave_board(fd, &conn);
    }

    fn leave_board(&mut self, fd: RawFd, conn: &Conn<'_>) {
        let (segment, number) = (&conn.link.segment, conn.link.conn);
        let known = self.boards.iter().position(|view| view.is_of(segment));
        if let Some(index) = known.filter(|index| !self.boards[*index].remove(number, fd)) {
            self.boards.swap_remove(index).give_back();
        }
    }

    /// Has any board something new? Cheap enough to spin on.
    #[inline]
    pub fn posted(&self) -> bool {
        self.boards.iter().any(View::is_posted)
    }

    /// Takes what the peers posted, in the order in which it came.
    #[inline]
    pub fn collect(&mut self) {
        if self.posted() {
            self.take_posted();
        }
    }

    #[inline(never)]
    fn take_posted(&mut self) {
        let mut fresh = SmallVec::<[(RawFd, u32, usize); FEW]>::new();
        for (index, view) in self.boards.iter().enumerate() {
            if view.is_posted() {
                view.take(|fd, conn| fresh.push((fd, conn, index)));
            }
        }
        // Not before all of their memory has been asked for.
        let stamped = fresh
            .iter()
            .map(|(fd, conn, view)| (self.boards[*view].stamp(*conn), *fd));
        let mut stamped: SmallVec<[(Stamp, RawFd); FEW]> = stamped.collect();
        stamped.sort_unstable();
        for (stamp, fd) in stamped {
            self.enqueue(fd);
            if stamp.spoke_before() {
                let ticket = self.members.get(&fd).map_or(0, |member| member.ticket);
                self.turns.kernel_before(ticket);
            }
        }
    }

    /// Wakes a thread of our own that sleeps in the kernel's wait.
    pub fn ring_myself(&self) {
        if let Some(waiter) = self.waiter {
            waiter.rouse();
        }
    }

    /// Makes room for further rings; a set that is watched from outside does so when it is refreshed.
    pub(super) fn answer_bells(&self) {
        if let Some(waiter) = self.waiter.filter(|_| !self.watched) {
            waiter.make_room();
        }
    }
}
