//! One epoll set: its members, its waiter, its boards, and who is to be looked at.

use std::cell::UnsafeCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use libc::{epoll_event, EPOLLET, EPOLLIN, EPOLLOUT};
use netstack::ring::SideLock;

use super::kernel::{raw_ctl, register, OURS};
use super::member::Member;
use crate::backoff::Backoff;
use crate::conn::{Conn, Handle};
use crate::pair::PairSegment;
use crate::process;
use crate::reason::Reason;
use crate::spin::History;
use crate::thread::{Critical, Thread};
use crate::waiter::{self, Waiter};

/// Marks kernel events as ours. No user-space pointer has this top, and small numbers do not either.
const TAG: u64 = 0xa5c3_96e1 << 32;
const BELL: u32 = u32::MAX;

pub struct Set {
    lock: SideLock,
    state: UnsafeCell<State>,
    /// Numbers of this process that name the set; 0: free.
    pub numbers: AtomicU32,
    /// Threads of this process asleep in the kernel's wait.
    pub sleepers: AtomicU32,
    pub spin: History,
    /// Waits that ended without asking the kernel, for fairness.
    pub hurried: AtomicU32,
}

// SAFETY: `state` is touched only under `lock`.
unsafe impl Sync for Set {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Set {}

#[derive(Default)]
pub struct State {
    owner: u32,
    pub members: HashMap<RawFd, Member>,
    /// Numbers of members to look at.
    pub queue: VecDeque<RawFd>,
    pub waiter: Option<&'static Waiter>,
    bells: usize,
    boards: Vec<View>,
    /// Its members stay on the kernel.
    kernel_only: bool,
}

/// A board of ours in a segment, and the members it speaks of.
struct View {
    segment: Arc<PairSegment>,
    side: usize,
    board: usize,
    fds: HashMap<u32, Vec<RawFd>>,
}

/// The set's lock, within a critical section.
pub struct Held<'a> {
    set: &'a Set,
    _critical: Critical,
}

impl Held<'_> {
    pub fn state(&mut self) -> &mut State {
        // SAFETY: the lock is held, and this guard is the only way to the state.
        unsafe { &mut *self.set.state.get() }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.set.lock.unlock();
    }
}

impl Set {
    pub fn new() -> Set {
        Set {
            lock: SideLock::new(),
            state: UnsafeCell::new(State::new()),
            numbers: AtomicU32::new(1),
            sleepers: AtomicU32::new(0),
            spin: History::default(),
            hurried: AtomicU32::new(0),
        }
    }

    /// Takes a free set.
    pub fn reuse(&self) -> bool {
        self.numbers
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn hold_raw(&self) -> Option<Held<'_>> {
        let critical = Critical::enter()?;
        let mut backoff = Backoff::default();
        while let Err(owner) = self.lock.try_lock(critical.0.id()) {
            if owner == critical.0.id() {
                return None;
            }
            backoff.pause();
        }
        Some(Held {
            set: self,
            _critical: critical,
        })
    }

    /// To use the set: a child that inherited it makes it its own.
    pub fn hold(&self) -> Option<Held<'_>> {
        let mut held = self.hold_raw()?;
        held.state().follow_fork();
        Some(held)
    }

    /// To follow what happens to members. `None` in a child that has only inherited the set: it does
    /// not speak for its parent.
    fn hold_own(&self) -> Option<Held<'_>> {
        let mut held = self.hold_raw()?;
        (held.state().owner == process::pid()).then_some(held)
    }

    pub fn lock_for_fork(&self) {
        let Some(me) = Thread::me() else { return };
        let mut backoff = Backoff::default();
        while self.lock.try_lock(me.id()).is_err() {
            backoff.pause();
        }
    }

    /// Only if it is ours: another thread may have made a set in between.
    pub fn unlock_after_fork(&self) {
        if let Some(me) = Thread::me() {
            self.lock.unlock_if(me.id());
        }
    }

    /// The last number is closed.
    pub fn clear(&self) {
        let Some(mut held) = self.hold_raw() else {
            return;
        };
        if held.state().owner != process::pid() {
            *held.state() = State::new();
            return;
        }
        let state = held.state();
        let fds: Vec<_> = state.members.keys().copied().collect();
        fds.into_iter().for_each(|fd| state.remove(fd));
        let waiter = state.waiter.take();
        *state = State::new();
        drop(held);
        waiter::give_back(waiter.map_or(std::ptr::null_mut(), |waiter| {
            std::ptr::from_ref(waiter).cast_mut()
        }));
    }

    pub fn fds_of(&self, number: u32) -> Vec<RawFd> {
        let Some(mut held) = self.hold_own() else {
            return Vec::new();
        };
        let members = held.state().members.values();
        members
            .filter(|member| member.handle.number == number)
            .map(|member| member.fd)
            .collect()
    }

    pub fn convert(&self, fd: RawFd) {
        if let Some(mut held) = self.hold_own() {
            let awake = self.sleepers.load(Ordering::Relaxed) == 0;
            held.state().convert(fd, awake);
        }
    }

    /// Somebody has changed something about a member: it gets its wires now, and a look at the next
    /// wait (a sleeper is woken for it if it is ready already).
    pub fn touch(&self, fd: RawFd) {
        let Some(mut held) = self.hold_own() else {
            return;
        };
        let state = held.state();
        if state
            .members
            .get(&fd)
            .is_some_and(|member| member.converted && !member.disabled)
        {
            state.arm(fd);
            state.enqueue(fd);
            self.wake(state);
        }
    }

    /// A thread of our own that sleeps in the kernel's wait looks at the queue.
    pub fn wake(&self, state: &State) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            state.ring_myself();
        }
    }

    /// With a duplicate alive the kernel goes on telling about a closed number, and we could no
    /// longer change its registration: it goes back to the program's own, and the connection with it.
    pub fn number_closes(&self, fd: RawFd, shared: bool) {
        let Some(mut held) = self.hold_own() else {
            return;
        };
        let state = held.state();
        if shared
            && state
                .members
                .get(&fd)
                .is_some_and(|member| member.converted)
        {
            state.give_up(fd, Reason::Call);
        }
        state.remove(fd);
    }

    pub fn only_by_kernel(&self, _epfd: RawFd) {
        if let Some(mut held) = self.hold() {
            held.state().give_up_all(Reason::Waiters);
            held.state().kernel_only = true;
        }
    }
}

impl State {
    fn new() -> State {
        State {
            owner: process::pid(),
            ..State::default()
        }
    }

    /// A forked child that uses an inherited set: its parent's connections go back to the kernel,
    /// for both processes read the same kernel set.
    fn follow_fork(&mut self) {
        if self.owner == process::pid() {
            return;
        }
        self.owner = process::pid();
        self.give_up_all(Reason::Fork);
        self.waiter = None;
        self.bells = 0;
        self.boards.clear();
    }

    fn give_up_all(&mut self, reason: Reason) {
        let converted = self.members.values().filter(|member| member.converted);
        let fds: Vec<_> = converted.map(|member| member.fd).collect();
        fds.into_iter().for_each(|fd| self.give_up(fd, reason));
    }

    /// Back to the program's own registration, and the connection back to the kernel.
    pub fn give_up(&mut self, fd: RawFd, reason: Reason) {
        self.release(fd);
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        member.converted = false;
        crate::conn::demote(member.handle, reason);
        let mut events = member.events;
        if member.disabled {
            events &= libc::EPOLLONESHOT as u32 | EPOLLET as u32;
        }
        let _ = register(member, events, member.data);
    }

    /// Takes a managed member over from the kernel. `awake`: nobody sleeps in the kernel's wait.
    pub fn convert(&mut self, fd: RawFd, awake: bool) {
        let Some(member) = self.members.get(&fd).filter(|member| !member.converted) else {
            return;
        };
        let (handle, epfd) = (member.handle, member.epfd);
        let Some(conn) = Conn::enter(handle) else {
            return;
        };
        if self.kernel_only || !conn.link.pair.is_mine() || !self.wire(fd, epfd, &conn) {
            conn.wait_by_kernel();
            conn.record.set_reason(Reason::Waiters);
            return conn.record.set(crate::record::flag::PINNED);
        }
        drop(conn);
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        member.converted = register(member, OURS, TAG | fd as u32 as u64).is_ok();
        if let Some(waiter) = self.waiter.filter(|_| !awake) {
            waiter.lie_down();
        }
        self.arm(fd);
        self.enqueue(fd);
    }

    /// A waiter for the set, a bell in the kernel's set, a board in the member's segment.
    fn wire(&mut self, fd: RawFd, epfd: RawFd, conn: &Conn<'_>) -> bool {
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
            let event = epoll_event {
                events: (EPOLLIN | EPOLLET) as u32,
                u64: TAG | u64::from(BELL),
            };
            if raw_ctl(epfd, libc::EPOLL_CTL_ADD, bell.wait_fd().as_raw_fd(), event).is_err() {
                return false;
            }
            self.bells += 1;
        }
        let Some(view) = self.view(&conn.link.segment, conn.link.side) else {
            return false;
        };
        let board = view.board;
        view.fds.entry(conn.link.conn).or_default().push(fd);
        if let Some(member) = self.members.get_mut(&fd) {
            member.name = waiter.number | (board as u32 + 1) << 16;
        }
        true
    }

    fn view(&mut self, segment: &Arc<PairSegment>, side: usize) -> Option<&mut View> {
        let known = self
            .boards
            .iter()
            .position(|view| Arc::ptr_eq(&view.segment, segment));
        let index = match known {
            Some(index) => index,
            None => {
                let board = segment.take_board()?;
                self.boards.push(View {
                    segment: segment.clone(),
                    side,
                    board,
                    fds: HashMap::new(),
                });
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
            let seen = if member.is_edge() { member.told } else { 0 };
            conn.arm_data_at(slot, member.name, seen);
        }
        let missing = if member.armed.data.is_some() {
            libc::POLLOUT
        } else {
            libc::POLLIN | libc::POLLOUT
        };
        if let Some(slot) = member.armed.space.take() {
            conn.disarm(crate::conn::ready::Armed {
                data: None,
                space: Some(slot),
            });
        }
        let wanted = (member.wanted() | libc::POLLIN) & missing;
        match conn.arm(wanted, member.name) {
            Some(armed) => {
                member.armed.data = member.armed.data.or(armed.data);
                member.armed.space = armed.space;
            }
            None => conn.wait_by_kernel(),
        }
    }

    /// Takes the member's wires down.
    fn release(&mut self, fd: RawFd) {
        let Some(member) = self.members.get_mut(&fd) else {
            return;
        };
        let armed = std::mem::take(&mut member.armed);
        let Some(conn) = Conn::enter(member.handle) else {
            return;
        };
        conn.disarm(armed);
        let (segment, number) = (&conn.link.segment, conn.link.conn);
        let Some(index) = self
            .boards
            .iter()
            .position(|view| Arc::ptr_eq(&view.segment, segment))
        else {
            return;
        };
        let view = &mut self.boards[index];
        if let Some(fds) = view.fds.get_mut(&number) {
            fds.retain(|other| *other != fd);
            if fds.is_empty() {
                view.fds.remove(&number);
            }
        }
        if view.fds.is_empty() {
            let view = self.boards.swap_remove(index);
            view.segment.give_board(view.board);
        }
    }

    pub fn remove(&mut self, fd: RawFd) {
        if self.members.get(&fd).is_some_and(|member| member.converted) {
            self.release(fd);
        }
        self.members.remove(&fd);
    }

    pub fn enqueue(&mut self, fd: RawFd) {
        if let Some(member) = self.members.get_mut(&fd).filter(|member| !member.queued) {
            member.queued = true;
            self.queue.push_back(fd);
        }
    }

    /// Has any board something new? Cheap enough to spin on.
    #[inline]
    pub fn posted(&self) -> bool {
        self.boards
            .iter()
            .any(|view| !view.segment.board(view.side, view.board).is_empty())
    }

    /// Takes what the peers posted.
    pub fn collect(&mut self) {
        let mut fresh = Vec::new();
        for view in &self.boards {
            let board = view.segment.board(view.side, view.board);
            if !board.is_empty() {
                board.take(|conn| fresh.extend(view.fds.get(&conn).into_iter().flatten()));
            }
        }
        fresh.into_iter().for_each(|fd| self.enqueue(fd));
    }

    pub fn has_managed(&self) -> bool {
        self.waiter.is_some()
    }

    /// Wakes a thread of our own that sleeps in the kernel's wait.
    fn ring_myself(&self) {
        if let Some(bell) = self.waiter.and_then(|waiter| waiter.bells().next()) {
            let _ = rustix::io::write(bell.wait_fd(), &1u64.to_ne_bytes());
        }
    }

    /// Registers what the program asked for; a managed connection is converted at once.
    pub fn add(&mut self, fd: RawFd, handle: Handle, epfd: RawFd, event: epoll_event, awake: bool) {
        self.remove(fd);
        self.members
            .insert(fd, Member::new(fd, handle, epfd, event.events, event.u64));
        self.convert(fd, awake);
    }

    /// A kernel event with our data: a bell, or a member whose kernel socket has something to say.
    /// `false`: it is the program's own.
    pub fn is_ours(&mut self, event: &epoll_event) -> bool {
        let (events, data) = (event.events, event.u64);
        if data >> 32 != TAG >> 32 {
            return false;
        }
        if data as u32 == BELL {
            if let Some(waiter) = self.waiter {
                for bell in waiter.bells() {
                    bell.drain();
                }
            }
            return true;
        }
        let fd = data as u32 as RawFd;
        if let Some(conn) = self
            .members
            .get(&fd)
            .and_then(|member| Conn::enter(member.handle))
        {
            conn.note_kernel_events((events & !(EPOLLOUT as u32)) as libc::c_short);
            crate::conn::send::serve(&conn);
        }
        self.enqueue(fd);
        true
    }
}
