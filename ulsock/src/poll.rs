//! `poll` and `select` over fds of which some are managed connections.
//!
//! Managed ones are looked at in user space; for the sleep their wires are armed and the kernel
//! polls the program's other fds, the managed kernel sockets and our bells in one call.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use libc::{
    c_int, c_short, fd_set, nfds_t, pollfd, sigset_t, timespec, POLLERR, POLLHUP, POLLIN, POLLOUT,
    POLLPRI,
};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::api::Verdict;
use crate::conn::ready::Armed;
use crate::conn::space::STALL;
use crate::conn::wait::{answer_bells, poll_with_signals, raw_ppoll, Deadline};
use crate::conn::{Conn, Handle};
use crate::options::record_of;
use crate::record::{Record, State};
use crate::signal::Seen;
use crate::spin;
use crate::table::{self, Slot};
use crate::thread::Thread;
use crate::waiter::{self, Waiter, BELLS};

const ZERO: Timespec = Timespec {
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
    if fds.is_null() || count == 0 || count > 1 << 20 {
        return Verdict::Bypass;
    }
    // SAFETY: the program says that there are `count` entries.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    if !fds.iter().any(|entry| is_ours(entry.fd)) {
        return Verdict::Bypass;
    }
    // SAFETY: null or valid by contract.
    let Some(limit) = Limit::new(unsafe { timeout.as_ref() }) else {
        return Verdict::Bypass;
    };
    match poll_ours(fds, limit, mask) {
        Some(Ok(n)) => Verdict::Done(n as isize),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

#[inline]
fn is_ours(fd: RawFd) -> bool {
    matches!(
        table::get(fd),
        Slot::Record(_) | Slot::Epoll(_) | Slot::Internal
    )
}

#[derive(Clone, Copy)]
struct Limit {
    deadline: Deadline,
    impatient: bool,
}

impl Limit {
    /// `None` for a time that the kernel shall refuse itself.
    fn new(time: Option<&timespec>) -> Option<Limit> {
        let Some(time) = time else {
            return Some(Limit {
                deadline: Deadline::never(),
                impatient: false,
            });
        };
        if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
            return None;
        }
        let time = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        Some(Limit {
            deadline: Deadline::after(time),
            impatient: time.is_zero(),
        })
    }
}

/// A managed connection among the polled fds.
struct Watched {
    index: usize,
    handle: Handle,
    armed: Armed,
}

fn poll_ours(
    fds: &mut [pollfd],
    limit: Limit,
    mask: *const sigset_t,
) -> Option<Result<usize, Errno>> {
    let me = Thread::me()?;
    let seen = Seen::now(me);
    let mut watched = Vec::new();
    let mut sets = Vec::new();
    let mut inside = Inside::default();
    for (index, entry) in fds.iter().enumerate() {
        match table::get(entry.fd) {
            Slot::Epoll(set) => {
                crate::epoll::watch(set, entry.fd);
                sets.push(set);
            }
            Slot::Record(_) => match record_of(entry.fd) {
                Some((family, number, record)) if record.state() == State::Managed => {
                    watched.push(Watched {
                        index,
                        handle: Handle::new(family, number, entry.fd),
                        armed: Armed::default(),
                    });
                    inside.enter(record, entry.events);
                }
                Some((_, _, record)) => inside.enter(record, entry.events),
                None => {}
            },
            _ => {}
        }
    }
    let mut poll = Poll {
        fds,
        watched,
        sets,
        limit,
        mask,
        me,
        seen,
    };
    Some(poll.run())
}

/// Gates of connections that are not (fully) managed: while we are inside, they do not become so,
/// for nobody could wake us.
#[derive(Default)]
struct Inside {
    rx: Vec<&'static Record>,
    tx: Vec<&'static Record>,
}

impl Inside {
    fn enter(&mut self, record: &'static Record, events: c_short) {
        if events & !(POLLOUT | libc::POLLWRNORM) != 0 && record.rx.gate.enter() {
            self.rx.push(record);
        }
        if events & (POLLOUT | libc::POLLWRNORM) != 0 && record.tx.gate.enter() {
            self.tx.push(record);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.rx.iter().for_each(|record| record.rx.gate.leave());
        self.tx.iter().for_each(|record| record.tx.gate.leave());
    }
}

struct Poll<'a> {
    fds: &'a mut [pollfd],
    watched: Vec<Watched>,
    /// Epoll sets among the polled fds.
    sets: Vec<u32>,
    limit: Limit,
    mask: *const sigset_t,
    me: &'static Thread,
    seen: Seen,
}

impl Poll<'_> {
    fn run(&mut self) -> Result<usize, Errno> {
        loop {
            if self.limit.impatient {
                self.glance();
                return self.finish();
            }
            // What was ready a moment ago may not be any more (somebody else took it, a consumer
            // moved on): zero is for the timeout alone.
            if self.managed_ready() {
                match self.finish()? {
                    0 => {}
                    n => return Ok(n),
                }
            }
            if !self.watched.is_empty() && self.spin() {
                continue;
            }
            if self.sleep()? {
                match self.finish()? {
                    0 => {}
                    n => return Ok(n),
                }
            }
            if self.limit.deadline.passed() {
                self.limit.impatient = true;
            }
        }
    }

    /// There will be no sleep in which the kernel sockets could speak: asks them now.
    fn glance(&self) {
        for watched in &self.watched {
            let Some(conn) = Conn::enter(watched.handle) else {
                continue;
            };
            let events = libc::POLLRDHUP | POLLPRI;
            let mut fds = [pollfd {
                fd: watched.handle.fd,
                events,
                revents: 0,
            }];
            let _ = raw_ppoll(&mut fds, Some(ZERO), std::ptr::null());
            conn.note_kernel_events(fds[0].revents);
        }
    }

    /// The kernel's word on a set counts, and the set tells the kernel of our own members.
    fn refresh_sets(&self) {
        self.sets.iter().copied().for_each(crate::epoll::refresh);
    }

    fn managed_ready(&self) -> bool {
        self.watched
            .iter()
            .any(|watched| self.revents(watched).unwrap_or(0) != 0)
    }

    /// `None`: not managed any more, the kernel answers.
    fn revents(&self, watched: &Watched) -> Option<c_short> {
        let conn = Conn::enter(watched.handle)?;
        Some(conn.revents(self.fds[watched.index].events))
    }

    /// Everything that holds now, without waiting.
    fn finish(&mut self) -> Result<usize, Errno> {
        let others = self.fds.len() > self.watched.len();
        self.refresh_sets();
        if others {
            raw_ppoll(self.fds, Some(ZERO), std::ptr::null())?;
        }
        for index in 0..self.watched.len() {
            let at = self.watched[index].index;
            match self.revents(&self.watched[index]) {
                Some(revents) => self.fds[at].revents = revents,
                None if !others => {
                    raw_ppoll(&mut self.fds[at..=at], Some(ZERO), std::ptr::null())?;
                }
                None => {}
            }
        }
        for entry in self
            .fds
            .iter_mut()
            .filter(|entry| table::get(entry.fd) == Slot::Internal)
        {
            entry.revents = libc::POLLNVAL;
        }
        Ok(self.fds.iter().filter(|entry| entry.revents != 0).count())
    }

    fn spin(&self) -> bool {
        let Some(first) = self.watched.first() else {
            return false;
        };
        // With one connection the cursor itself is watched, with several each is asked in turn.
        if self.watched.len() == 1 && self.fds[first.index].events & POLLIN != 0 {
            let Some(conn) = Conn::enter(first.handle) else {
                return false;
            };
            let (tail, epoch) = conn.progress();
            return spin::until(&self.me.spin, || {
                conn.progress() != (tail, epoch) || self.me.deferred.any()
            });
        }
        spin::until(&self.me.spin, || {
            self.me.deferred.any() || self.managed_ready()
        })
    }

    /// Sleeps; `true` when a fd that is not managed has something, or the time is up.
    fn sleep(&mut self) -> Result<bool, Errno> {
        let waiter = waiter::mine(self.me);
        if let Some(waiter) = waiter {
            waiter.lie_down();
        }
        let ready = self.arm_all(waiter);
        let result = if ready {
            Ok(false)
        } else {
            self.kernel_poll(waiter)
        };
        if let Some(waiter) = waiter {
            waiter.get_up();
        }
        self.disarm_all();
        result
    }

    /// Puts all wires up and looks once more; `true`: somebody is ready already.
    fn arm_all(&mut self, waiter: Option<&'static Waiter>) -> bool {
        for index in 0..self.watched.len() {
            let (handle, events) = (
                self.watched[index].handle,
                self.fds[self.watched[index].index].events,
            );
            let Some(conn) = Conn::enter(handle) else {
                continue;
            };
            let bell = waiter.filter(|waiter| conn.link.pair.hand_over(waiter));
            match bell.and_then(|waiter| conn.arm(events, waiter.number)) {
                Some(armed) => self.watched[index].armed = armed,
                None => conn.wait_by_kernel(),
            }
        }
        self.managed_ready()
    }

    fn disarm_all(&mut self) {
        for watched in &mut self.watched {
            let armed = std::mem::take(&mut watched.armed);
            if let Some(conn) = Conn::enter(watched.handle) {
                conn.disarm(armed);
            }
        }
    }

    fn kernel_poll(&mut self, waiter: Option<&Waiter>) -> Result<bool, Errno> {
        let mut all = Vec::with_capacity(self.fds.len() + BELLS);
        all.extend_from_slice(self.fds);
        for entry in all
            .iter_mut()
            .filter(|entry| table::get(entry.fd) == Slot::Internal)
        {
            entry.fd = -1;
        }
        for watched in &self.watched {
            if let Some(conn) = Conn::enter(watched.handle) {
                all[watched.index].events = conn.kernel_interest(all[watched.index].events);
            }
        }
        self.refresh_sets();
        let count = all.len();
        let bells = waiter.iter().flat_map(|waiter| waiter.bells());
        all.extend(bells.map(|bell| pollfd {
            fd: bell.wait_fd().as_raw_fd(),
            events: POLLIN,
            revents: 0,
        }));
        let capped = self.watched.iter().any(|watched| watched.armed.capped);
        let deadline = if capped {
            Deadline::after(STALL).min(self.limit.deadline)
        } else {
            self.limit.deadline
        };
        let n = poll_with_signals(self.me, &mut all, deadline, self.mask, self.seen)?;
        answer_bells(waiter, &all[count..]);
        for watched in &self.watched {
            let entry = &mut all[watched.index];
            if let (Some(conn), true) = (Conn::enter(watched.handle), entry.revents != 0) {
                conn.note_kernel_events(entry.revents & !POLLOUT);
                crate::conn::send::serve(&conn);
                entry.revents = 0;
            }
        }
        Ok(n == 0 && self.limit.deadline.passed()
            || all[..count].iter().any(|entry| entry.revents != 0))
    }
}

const READ: c_short = POLLIN | POLLHUP | POLLERR;
const WRITE: c_short = POLLOUT | POLLERR;

/// `select` by way of `poll`, for sets that hold one of our connections.
///
/// # Safety
/// As libc's `pselect`.
pub unsafe fn select(
    nfds: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Verdict {
    if !(0..=1 << 20).contains(&nfds) {
        return Verdict::Bypass;
    }
    let sets = [read, write, except].map(|set| Bits { words: set.cast() });
    // SAFETY: each set has bits for all numbers below `nfds`, by contract.
    let any = (0..nfds).any(|fd| unsafe { sets.iter().any(|set| set.has(fd)) } && is_ours(fd));
    if !any {
        return Verdict::Bypass;
    }
    // SAFETY: null or valid by contract.
    let Some(limit) = Limit::new(unsafe { timeout.as_ref() }) else {
        return Verdict::Bypass;
    };
    // SAFETY: as above.
    let mut fds: Vec<pollfd> = (0..nfds)
        .filter_map(|fd| unsafe { asked(&sets, fd) })
        .collect();
    match poll_ours(&mut fds, limit, mask) {
        Some(Ok(_)) if fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) => {
            Verdict::Fail(libc::EBADF)
        }
        // SAFETY: as above.
        Some(Ok(_)) => Verdict::Done(unsafe { answer(&sets, nfds, &fds) }),
        Some(Err(error)) => Verdict::Fail(error.raw_os_error()),
        None => Verdict::Bypass,
    }
}

/// How many numbers `select` shall look at. The kernel looks at no more than its table of numbers has,
/// and programs rely on that: they ask for as many as they may have, with sets that are shorter. But
/// our own numbers have made the table longer.
#[inline]
pub fn select_limit(nfds: c_int) -> c_int {
    if nfds <= table::FD_SET_SIZE || !crate::process::is_on() {
        return nfds;
    }
    // As in the kernel, in whole words.
    nfds.min((table::end_of_programs() + 63) & !63)
}

/// A set of any length, as programs with more than 1024 fds use it.
#[derive(Clone, Copy)]
struct Bits {
    words: *mut u64,
}

impl Bits {
    /// # Safety
    /// Null, or with bits up to `fd`.
    unsafe fn has(&self, fd: RawFd) -> bool {
        // SAFETY: by contract.
        !self.words.is_null() && unsafe { *self.words.add(fd as usize / 64) } >> (fd % 64) & 1 != 0
    }

    /// # Safety
    /// As for `has`.
    unsafe fn put(&self, fd: RawFd, on: bool) {
        if !self.words.is_null() {
            // SAFETY: by contract.
            let word = unsafe { &mut *self.words.add(fd as usize / 64) };
            *word = *word & !(1 << (fd % 64)) | u64::from(on) << (fd % 64);
        }
    }
}

/// # Safety
/// The sets have bits up to `fd`.
unsafe fn asked(sets: &[Bits; 3], fd: RawFd) -> Option<pollfd> {
    // SAFETY: by contract.
    let [read, write, except] = sets.map(|set| unsafe { set.has(fd) });
    let mut events = 0;
    for (on, bit) in [(read, POLLIN), (write, POLLOUT), (except, POLLPRI)] {
        if on {
            events |= bit;
        }
    }
    (events != 0).then_some(pollfd {
        fd,
        events,
        revents: 0,
    })
}

/// # Safety
/// The sets have bits below `nfds`.
unsafe fn answer(sets: &[Bits; 3], nfds: c_int, fds: &[pollfd]) -> isize {
    let mut count = 0;
    for fd in 0..nfds {
        // SAFETY: by contract.
        sets.iter().for_each(|set| unsafe { set.put(fd, false) });
    }
    for entry in fds {
        for (set, asked, bits) in [
            (&sets[0], POLLIN, READ),
            (&sets[1], POLLOUT, WRITE),
            (&sets[2], POLLPRI, POLLPRI),
        ] {
            if entry.events & asked != 0 && entry.revents & bits != 0 {
                // SAFETY: by contract.
                unsafe { set.put(entry.fd, true) };
                count += 1;
            }
        }
    }
    count
}
