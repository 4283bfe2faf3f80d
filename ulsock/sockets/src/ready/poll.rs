//! `poll` over fds of which some are managed connections.
//!
//! Managed ones are looked at in user space; for the sleep their wires are armed and the kernel
//! polls the program's other fds, the managed kernel sockets and our bells in one call.

mod lists;
pub mod newcomers;
mod sleep;

use std::os::fd::RawFd;
use std::time::Duration;

use libc::{POLLIN, POLLNVAL, POLLPRI, c_short, nfds_t, pollfd, sigset_t, timespec};
use rustix::io::Errno;
use rustix::time::Timespec;
use smallvec::SmallVec;

use crate::conn::{Conn, Handle};
use crate::runtime::cancel;
use crate::runtime::deadline::Deadline;
use crate::runtime::signal::Seen;
use crate::runtime::sleep_state::Sleep;
use crate::runtime::spin;
use crate::runtime::thread::{Critical, Thread};
use crate::runtime::upcalls;
use crate::state::process_group::record_of;
use crate::state::record::{Record, State, flag};
use crate::state::table::{self, Slot};
use crate::state::urings;
use crate::state::verdict::Verdict;
use crate::state::young;
use lists::PolledConnection;
pub use lists::{FEW, Lists};
use newcomers::{are_any, grow_up, may_wait};
use os::access;
use os::poll::poll_now;

pub const ZERO: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// # Safety
/// As libc's `ppoll`.
pub unsafe fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Verdict {
    // Without a connection nothing is ours to look at.
    if count == 0 || count > 1 << 20 || !are_any() {
        return Verdict::Bypass;
    }
    let count = count as usize;
    if !access::is_readable(fds, count * size_of::<pollfd>()) {
        return Verdict::Bypass;
    }
    // SAFETY: they can be read.
    let list = unsafe { std::slice::from_raw_parts(fds, count) };
    if urings::any_is_served() {
        list.iter().for_each(|entry| note_uring(entry.fd));
    }
    // SAFETY: any bytes are a time.
    let time = unsafe { access::load_if_any(timeout) };
    if young::are_used() && may_wait(time) {
        list.iter().for_each(|entry| grow_up(entry.fd));
    }
    if !list.iter().any(|entry| is_ours(entry.fd)) {
        return Verdict::Bypass;
    }
    let limit = time.and_then(|time| PollLimit::new(time.as_ref()));
    let Some(limit) = limit.filter(|_| access::is_mask(mask)) else {
        return Verdict::Bypass;
    };
    if !can_be_answered(fds, count) {
        return without_room(list, limit, mask);
    }
    // SAFETY: they can be read and written.
    let list = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    match poll_ours(list, limit, mask) {
        Some(Ok(n)) => Verdict::Done(n as isize),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

/// Can all answers be written? One in each page is, and nothing else of the list: another thread may
/// be changing the rest.
fn can_be_answered(fds: *mut pollfd, count: usize) -> bool {
    const STEP: usize = access::PAGE / size_of::<pollfd>();
    // SAFETY: below `count`, in a list that can be read.
    let can = |at: usize| unsafe { access::can_write(&raw mut (*fds.add(at)).revents) };
    can(0)
        && (count == 1 || can(count - 1) && (1..count.div_ceil(STEP)).all(|page| can(page * STEP)))
}

/// A list that can only be read: the kernel waits, and then cannot answer.
#[cold]
fn without_room(list: &[pollfd], limit: PollLimit, mask: *const sigset_t) -> Verdict {
    match poll_ours(&mut list.to_vec(), limit, mask) {
        Some(Ok(_)) => Verdict::Fail(libc::EFAULT),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

/// The lists of a call that sleeps, which a handler has interrupted.
pub fn clear(lists: *mut ()) {
    // SAFETY: on the stack of the call, which goes on when the handler has returned.
    unsafe { *lists.cast::<Lists>() = Lists::default() };
}

/// Whoever waits for an io_uring by its descriptor waits for what the kernel does.
#[cold]
pub fn note_uring(fd: RawFd) {
    if matches!(table::get(fd), Slot::Uring(_)) {
        (upcalls::get().uring_is_watched)(fd);
    }
}

#[inline]
pub fn is_ours(fd: RawFd) -> bool {
    matches!(
        table::get(fd),
        Slot::Record(_) | Slot::Epoll(_) | Slot::Internal
    )
}

/// Is it a descriptor of ours, of which the program must not know?
fn is_hidden(fd: RawFd, bell: Option<RawFd>) -> bool {
    table::get(fd) == Slot::Internal && Some(fd) != bell
}

#[derive(Clone, Copy)]
pub struct PollLimit {
    deadline: Deadline,
    pub impatient: bool,
}

impl PollLimit {
    /// How much time is left, if it is limited.
    pub fn left(&self) -> Option<timespec> {
        let left = self.deadline.left()?;
        Some(timespec {
            tv_sec: left.tv_sec,
            tv_nsec: left.tv_nsec,
        })
    }

    /// `None` for a time that the kernel shall refuse itself.
    pub fn new(time: Option<&timespec>) -> Option<PollLimit> {
        let Some(time) = time else {
            return Some(PollLimit {
                deadline: Deadline::never(),
                impatient: false,
            });
        };
        if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
            return None;
        }
        let time = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        Some(PollLimit {
            deadline: Deadline::after(time),
            impatient: time.is_zero(),
        })
    }
}

/// `None`: the kernel answers.
pub fn poll_ours(
    fds: &mut [pollfd],
    limit: PollLimit,
    mask: *const sigset_t,
) -> Option<Result<usize, Errno>> {
    cancel::point();
    poll_since(fds, limit, mask, Begun::default())
}

/// Of a call of which a poll is a part.
#[derive(Clone, Copy, Default)]
pub struct Begun {
    /// Handlers that have run since then end it.
    pub seen: Option<Seen>,
    /// A descriptor of ours that is polled like the program's.
    pub bell: Option<RawFd>,
}

/// The same as part of another call.
pub fn poll_since(
    fds: &mut [pollfd],
    limit: PollLimit,
    mask: *const sigset_t,
    begun: Begun,
) -> Option<Result<usize, Errno>> {
    let critical = Critical::enter()?;
    let me = critical.0;
    let mut poll = Poll {
        fds,
        lists: Lists::default(),
        limit,
        mask,
        me,
        seen: begun.seen.unwrap_or_else(|| Seen::now(me)),
        bell: begun.bell,
        is_short: false,
        answered: false,
        awake: false,
        bed: None,
        critical: Some(critical),
    };
    Some(poll.run())
}

/// What a daemon asks can be agreed to only while nobody is inside the gates.
#[inline]
fn attend_before_gates(record: &Record, handle: Handle) {
    if !record.rx.gate.is_closed()
        && let Some(conn) = Conn::enter(handle)
    {
        conn.attend();
    }
}

/// All of it happens inside a critical section but the sleep, so that a handler never finds gates
/// entered or wires armed; fields are dropped in this order, the critical section last.
struct Poll<'a> {
    fds: &'a mut [pollfd],
    lists: Lists,
    limit: PollLimit,
    mask: *const sigset_t,
    me: &'static Thread,
    seen: Seen,
    bell: Option<RawFd>,
    /// The sleep ends soon: a consumer that does not read shows only by the time that passes, and who has no bell for
    /// what the link brings must look for it.
    is_short: bool,
    /// The sleep has ended with the kernel's answer about the fds that are not managed.
    answered: bool,
    /// Kernel TCP carries one of them, and no ring any.
    awake: bool,
    bed: Option<Sleep>,
    critical: Option<Critical>,
}

impl Poll<'_> {
    fn run(&mut self) -> Result<usize, Errno> {
        loop {
            crate::runtime::engine_flag::glance();
            self.classify();
            if self.limit.impatient {
                self.glance();
                return match self.finish()? {
                    0 => self.check_signals(),
                    n => Ok(n),
                };
            }
            // What was ready a moment ago may not be any more (somebody else took it, a consumer
            // moved on): zero is for the timeout alone.
            if self.managed_ready() {
                match self.finish()? {
                    0 => {}
                    n => return Ok(n),
                }
            }
            if !self.block_signals()? || self.spin() {
                continue;
            }
            if self.waits_awake() {
                let found = self.finish()?;
                if found > 0 {
                    return Ok(found);
                }
                self.lists.all = SmallVec::new();
                continue;
            }
            if self.sleep()? {
                let kernels_alone = self.answered && self.lists.watched.is_empty();
                match self.finish()? {
                    // The kernel has found that the time is up.
                    0 if kernels_alone => return Ok(0),
                    0 => {}
                    n => return Ok(n),
                }
            }
            if self.limit.deadline.passed() {
                self.limit.impatient = true;
            }
        }
    }

    /// Who is managed, and who must stay as he is while we wait.
    fn classify(&mut self) {
        self.lists.leave_gates();
        self.lists.watched.clear();
        self.lists.sets.clear();
        let (mut by_kernel, mut by_ring) = (false, false);
        for (index, entry) in self.fds.iter().enumerate() {
            match table::get(entry.fd) {
                Slot::Epoll(set) => {
                    crate::ready::epoll::watch(set, entry.fd);
                    self.lists.sets.push(set);
                }
                Slot::Record(_) => {
                    let Some((family, number, record)) = record_of(entry.fd) else {
                        continue;
                    };
                    let handle = Handle::new(family, number, entry.fd);
                    by_ring |= record.rx.is_on_ring();
                    by_kernel |= record.has(flag::AWAKE);
                    if record.state() == State::Managed {
                        attend_before_gates(record, handle);
                        self.lists.watched.push(PolledConnection { index, handle });
                    }
                    self.lists.enter_gates(record, handle, entry.events);
                }
                _ => {}
            }
        }
        self.awake = by_kernel && !by_ring;
    }

    /// A mask of the program's own holds for the whole wait: from here on nothing runs but in the
    /// sleep. Without one, a handler that waits to run ends the call. `false`: look again.
    fn block_signals(&mut self) -> Result<bool, Errno> {
        if self.mask.is_null() {
            return if self.me.deferred.any() || self.seen.any_handler(self.me) {
                Err(Errno::INTR)
            } else {
                Ok(true)
            };
        }
        if self.bed.is_none() {
            self.bed = Some(Sleep::masked(self.me));
            self.seen = Seen::now(self.me);
            if self.me.deferred.any() {
                // It came before the mask did.
                self.bed = None;
                self.lists.leave_gates();
                self.critical = None;
                self.critical = Critical::enter();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A poll without waiting that found nothing still lets signals in that only its mask allows.
    fn check_signals(&mut self) -> Result<usize, Errno> {
        if self.mask.is_null() {
            return Ok(0);
        }
        let bed = Sleep::masked(self.me);
        self.lists.leave_gates();
        self.critical = None;
        let result = bed.poll(&mut [], Some(ZERO), self.mask);
        self.critical = Critical::enter();
        result
    }

    /// There will be no sleep in which the kernel sockets could speak: asks them now.
    fn glance(&self) {
        for watched in &self.lists.watched {
            let Some(conn) = Conn::enter(watched.handle) else {
                continue;
            };
            // To a connection on the link the kernel brings the peer's record, and to one on a ring what was
            // written past it.
            let past_ring = if conn.receives_by_ring() { POLLIN } else { 0 };
            let events = libc::POLLRDHUP | POLLPRI | past_ring;
            let mut fds = [pollfd {
                fd: watched.handle.fd,
                events,
                revents: 0,
            }];
            let _ = poll_now(&mut fds);
            conn.note_kernel_events(fds[0].revents);
        }
    }

    /// The kernel's word on a set counts, and the set tells the kernel of our own members.
    fn refresh_sets(&self) {
        let sets = self.lists.sets.iter().copied();
        sets.for_each(crate::ready::epoll::refresh);
    }

    fn managed_ready(&self) -> bool {
        self.lists
            .watched
            .iter()
            .any(|watched| self.revents(watched).unwrap_or(0) != 0)
    }

    /// `None`: not managed any more, the kernel answers.
    fn revents(&self, watched: &PolledConnection) -> Option<c_short> {
        let conn = Conn::enter(watched.handle)?;
        Some(conn.revents(self.fds[watched.index].events))
    }

    /// The connection has something to tell: did it come from a thread on this CPU?
    fn note_sender(&self, watched: &PolledConnection) {
        // Who waits for one connection asks it itself.
        if self.lists.watched.len() == 1 {
            return;
        }
        if let Some(conn) = Conn::enter(watched.handle) {
            self.me.spin.note_sender(conn.peer_is_near());
        }
    }

    /// The kernel's answer about the fds that are not managed.
    fn ask_others(&mut self) -> Result<(), Errno> {
        if self.fds.len() == self.lists.watched.len() {
            return Ok(());
        }
        if std::mem::take(&mut self.answered) {
            // Those that are managed get theirs next.
            for (entry, answer) in self.fds.iter_mut().zip(&self.lists.all) {
                entry.revents = answer.revents;
            }
            return Ok(());
        }
        self.ask_now()
    }

    /// Asks about them, and only about them: among a thousand connections there is often one listener.
    fn ask_now(&mut self) -> Result<(), Errno> {
        let Lists { watched, all, .. } = &mut self.lists;
        all.clear();
        let mut managed = watched.iter().map(|watched| watched.index).peekable();
        for (index, entry) in self.fds.iter().enumerate() {
            if managed.next_if_eq(&index).is_none() {
                all.push(*entry);
            }
        }
        poll_now(all)?;
        let mut answers = all.iter();
        let mut managed = watched.iter().map(|watched| watched.index).peekable();
        for (index, entry) in self.fds.iter_mut().enumerate() {
            if managed.next_if_eq(&index).is_none() {
                entry.revents = answers.next().map_or(0, |answer| answer.revents);
            }
        }
        Ok(())
    }

    /// Everything that holds now, without waiting.
    fn finish(&mut self) -> Result<usize, Errno> {
        self.refresh_sets();
        self.ask_others()?;
        for index in 0..self.lists.watched.len() {
            let watched = self.lists.watched[index];
            let at = watched.index;
            match self.revents(&watched) {
                Some(revents) => {
                    self.fds[at].revents = revents;
                    if revents & POLLIN != 0 {
                        self.note_sender(&watched);
                    }
                }
                None => {
                    poll_now(&mut self.fds[at..=at])?;
                }
            }
        }
        for entry in self
            .fds
            .iter_mut()
            .filter(|entry| is_hidden(entry.fd, self.bell))
        {
            entry.revents = POLLNVAL;
        }
        Ok(self.fds.iter().filter(|entry| entry.revents != 0).count())
    }

    fn spin(&self) -> bool {
        let Some(first) = self.lists.watched.first() else {
            return false;
        };
        // With one connection the cursor itself is watched, with several each is asked in turn.
        if self.lists.watched.len() == 1 && self.fds[first.index].events & POLLIN != 0 {
            let Some(conn) = Conn::enter(first.handle) else {
                return false;
            };
            let before = conn.progress();
            let near = || conn.peer_is_near();
            // What came between the last look and this one has moved nothing since.
            return self.managed_ready()
                || spin::until(&self.me.spin, near, || {
                    conn.progress() != before || self.me.deferred.any()
                });
        }
        let history = &self.me.spin;
        spin::until(
            history,
            || history.senders_near(),
            || self.me.deferred.any() || self.managed_ready(),
        )
    }
}
