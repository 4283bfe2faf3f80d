//! Where a thread sleeps that waits for one connection again and again: an epoll set of its own, with
//! its bells and the connection's kernel socket.
//!
//! The kernel keeps them registered from one sleep to the next, and tells of each ring once. So a sleep
//! is one system call, and a short one; after a poll, a second one takes the ring off the bell. (So it
//! does here for strangers' bells, which hold a few rings only.)
//! But a set, unlike a poll, does not keep a socket open that another thread closes: who closes leaves
//! a duplicate in the sleeper's bed ([`keep_open`]).

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{EPOLLET, EPOLLIN, EPOLLPRI, EPOLLRDHUP, c_short, epoll_event};
use rustix::event::epoll::{CreateFlags, create};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::wait::Woken;
use super::{Conn, Handle};
use crate::runtime::chaos;
use crate::runtime::sleep_state::Sleep;
use crate::runtime::thread;
use crate::runtime::thread::Watchers;
use crate::state::control::Locked;
use crate::state::process_group::ProcessGroup;
use os::epoll as kernel;
use os::fds::to_high;
use shm::doorbell::DoorbellKind;
use shm::waiter::{BELLS, Waiter};

/// So many sleeps in a row for one connection, and it is registered: that costs as much as some ten
/// sleeps by epoll save.
const ENOUGH: u32 = 16;
/// What the registrations of our own bell and of strangers' carry; a socket's carries its turn.
const BELL: u64 = 0;
const STRANGER: u64 = u64::MAX;

os::process_wide! {
    /// Sets of this process so far: they are kept with their waiters.
    static MADE: AtomicU64 = AtomicU64::new(0);
}

/// A set is a luxury: the program's own descriptors come first.
fn most() -> u64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    limit.saturating_sub(256) / 16
}

/// A waiter and its own set.
pub struct Watch<'a>(pub &'a Waiter);

impl Watch<'_> {
    /// Shall this sleep be here? Then what it needs is registered.
    pub fn is_worth_while(&self, conn: &Conn<'_>) -> bool {
        if self.0.own_set.spoilt.load(Ordering::Relaxed) {
            return false;
        }
        let (name, fd) = (conn.handle.name(), conn.handle.fd);
        let sleeps = self.0.own_set.sleeps.load(Ordering::Relaxed);
        if self.0.own_set.name.load(Ordering::Relaxed) != name
            || self.0.own_set.fd.load(Ordering::Relaxed) != fd
        {
            self.leave();
            self.0.own_set.name.store(name, Ordering::Relaxed);
            self.0.own_set.fd.store(fd, Ordering::Relaxed);
            return false;
        }
        if sleeps > ENOUGH {
            return self.has_all() || self.register(conn);
        }
        let sleeps = if chaos::is_on() { ENOUGH } else { sleeps };
        self.0.own_set.sleeps.store(sleeps + 1, Ordering::Relaxed);
        sleeps == ENOUGH && self.register(conn)
    }

    /// The sleeps are for another connection from now on.
    fn leave(&self) {
        if self.0.own_set.sleeps.swap(0, Ordering::Relaxed) > ENOUGH
            && let Some(set) = self.0.own_set.set.get()
        {
            // Who is closed is gone from the set already.
            let _ = kernel::delete(set.as_raw_fd(), self.0.own_set.fd.load(Ordering::Relaxed));
        }
    }

    #[cold]
    fn register(&self, conn: &Conn<'_>) -> bool {
        conn.record.note_watcher(conn.me.index());
        let done = self.begin().and_then(|set| {
            let (turn, events) = (self.next_turn(), (EPOLLIN | EPOLLPRI | EPOLLRDHUP) as u32);
            match kernel::add(set, conn.handle.fd, events, turn) {
                Err(Errno::EXIST) => kernel::modify(set, conn.handle.fd, events, turn),
                other => other,
            }
        });
        self.0
            .own_set
            .spoilt
            .store(done.is_err(), Ordering::Relaxed);
        done.is_ok()
    }

    /// The set, with all bells in it.
    fn begin(&self) -> Result<RawFd, Errno> {
        if self.0.own_set.set.get().is_none() {
            if MADE.fetch_add(1, Ordering::Relaxed) >= most() {
                return Err(Errno::MFILE);
            }
            let _ = self
                .0
                .own_set
                .set
                .set(to_high(create(CreateFlags::CLOEXEC)?)?);
        }
        let set = self
            .0
            .own_set
            .set
            .get()
            .map(AsRawFd::as_raw_fd)
            .ok_or(Errno::BADF)?;
        let known = self.0.own_set.bells.load(Ordering::Relaxed);
        for bell in self.0.bells().skip(known) {
            let data = match bell.kind() {
                DoorbellKind::Event => BELL,
                DoorbellKind::Socket => STRANGER,
            };
            let fd = bell.wait_fd().as_raw_fd();
            kernel::add(set, fd, (EPOLLIN | EPOLLET) as u32, data)?;
            self.0.own_set.bells.fetch_add(1, Ordering::Relaxed);
        }
        Ok(set)
    }

    /// Strangers may have been given bells since.
    fn has_all(&self) -> bool {
        self.0.bells().count() == self.0.own_set.bells.load(Ordering::Relaxed)
    }

    fn next_turn(&self) -> u64 {
        self.0.own_set.turn.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sleeps until a bell of its waiter's rings or the socket has something.
    pub fn sleep(&self, bed: &Sleep) -> Woken {
        let set = self.0.own_set.set.get().map_or(-1, AsRawFd::as_raw_fd);
        let mut events = [epoll_event { events: 0, u64: 0 }; 1 + BELLS];
        let (slept, undisturbed) = bed.lie(std::ptr::null(), |door, mask| {
            kernel::raw_wait(door, set, &mut events, None, mask)
        });
        match slept {
            Ok(_) | Err(Errno::INTR) if !undisturbed => Woken::Interrupted,
            Ok(n) => Woken::Look(self.hear(&events[..n])),
            // Stopped and continued, which a receive or a poll would not tell.
            Err(Errno::INTR) => Woken::Look(0),
            Err(_) => {
                self.0.own_set.spoilt.store(true, Ordering::Relaxed);
                Woken::Look(0)
            }
        }
    }

    /// What the set tells about the socket; its flags are those of poll.
    fn hear(&self, told: &[epoll_event]) -> c_short {
        let turn = self.0.own_set.turn.load(Ordering::Relaxed);
        let mut events = 0;
        for event in told {
            let number = event.u64;
            match number {
                BELL => {}
                STRANGER => self.0.make_room(),
                _ if number == turn => events = event.events as c_short,
                _ => self.0.own_set.spoilt.store(true, Ordering::Relaxed),
            }
        }
        events
    }
}

/// Before the number is closed in the kernel, and after the table has lost it: a thread that sleeps
/// there keeps the socket open until it gets up, as the kernel does for its own sleepers. It has said
/// so before it looked at the table for the last time.
pub fn keep_open(family: &ProcessGroup, number: u32, fd: RawFd) {
    let watchers = family.record(number).watchers();
    if watchers == Watchers::None {
        return;
    }
    // No child is forked between a duplicate's birth and its note in the bed: it would keep it.
    let _locked = Locked::wait();
    let name = Handle::new(family, number, fd).name();
    thread::beds(watchers).for_each(|bed| bed.keep_open(name, fd));
}
