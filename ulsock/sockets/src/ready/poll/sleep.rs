//! The sleep of a poll: wires up, everybody looked at once more, and then the kernel's poll over all fds and
//! our bells.

use std::os::fd::{AsRawFd, RawFd};

use libc::{POLLIN, POLLOUT, pollfd};
use rustix::io::Errno;

use super::{Lists, Poll, is_hidden};
use crate::conn::reclaim::ReclaimTimer;
use crate::conn::wait::{answer_bells, left_to_sleep};
use crate::conn::wait_space::STALL;
use crate::conn::{Conn, send};
use crate::runtime::awake::{self, Waited};
use crate::runtime::deadline::Deadline;
use crate::runtime::sleep_state::{Sleep, What};
use crate::runtime::thread::Critical;
use os::poll::poll_now;
use shm::waiter::Waiter;

impl Poll<'_> {
    /// Sleeps; `true` when a fd that is not managed has something, or the time is up.
    pub(super) fn sleep(&mut self) -> Result<bool, Errno> {
        let bed = match self.bed.take() {
            Some(bed) => bed,
            None => Sleep::prepare(self.me, self.seen).ok_or(Errno::INTR)?,
        };
        bed.make_bed();
        // Only a managed connection's peer rings.
        let waiter = match self.lists.watched.is_empty() {
            true => None,
            false => self.me.waiter(),
        };
        if let Some(waiter) = waiter {
            bed.lie_down(waiter);
        }
        let result = if self.arm_all(waiter, &bed) {
            Ok(false)
        } else {
            self.kernel_poll(waiter, &bed)
        };
        bed.make_bed();
        self.bed = Some(bed).filter(|_| !self.mask.is_null());
        result
    }

    /// Looks again for a while, if kernel TCP carries what is waited for; `true` when something has come.
    pub(super) fn waits_awake(&mut self) -> bool {
        if !self.awake || self.limit.deadline.is_within(awake::SHORT) {
            return false;
        }
        let mut all = std::mem::take(&mut self.lists.all);
        all.clear();
        all.extend_from_slice(self.fds);
        for watched in &self.lists.watched {
            all[watched.index].fd = -1;
        }
        hide(&mut all, self.bell);
        let look = || match poll_now(&mut all) {
            Ok(0) => self.managed_ready().then_some(false),
            _ => Some(true),
        };
        match awake::until(self.me, look) {
            Waited::Found(told) => {
                self.lists.all = all;
                self.answered = told && self.lists.sets.is_empty();
                true
            }
            // A handler may jump away before the lists are in the bed: nothing that has to be freed stays in them.
            Waited::Handler | Waited::Nothing => false,
        }
    }

    /// Puts all wires up and looks at each once more; `true`: somebody is ready already. What we hold
    /// is in the bed from here on.
    fn arm_all(&mut self, waiter: Option<&'static Waiter>, bed: &Sleep) -> bool {
        self.is_short = false;
        for (handle, way) in self.lists.gates.drain(..) {
            bed.hold(handle, What::Gate(way));
        }
        for watched in &self.lists.watched {
            let Some(conn) = Conn::enter(watched.handle) else {
                continue;
            };
            let events = self.fds[watched.index].events;
            let bell = waiter.filter(|waiter| conn.link.pair.hand_over(waiter));
            match bell.and_then(|waiter| conn.arm(events, waiter.number)) {
                Some(armed) => {
                    self.is_short |= armed.capped;
                    let data = armed.data.map(|slot| What::Data(slot as u8));
                    let space = armed.space.map(|slot| What::Space(slot as u8));
                    for what in data.into_iter().chain(space) {
                        bed.hold(watched.handle, what);
                    }
                    send::serve(&conn);
                }
                None => {
                    send::serve(&conn);
                    match conn.must_look_for_link() {
                        true => self.is_short = true,
                        false => conn.wait_by_kernel(),
                    }
                }
            }
            // Each for itself, while its lines are at hand. Who is in order to sleep needs all of them up.
            if conn.revents(events) != 0 {
                return true;
            }
        }
        false
    }

    /// What the kernel is asked for while we sleep.
    fn list_all(&mut self, waiter: Option<&Waiter>) {
        let Lists { watched, all, .. } = &mut self.lists;
        all.clear();
        all.extend_from_slice(self.fds);
        hide(all, self.bell);
        for watched in watched {
            if let Some(conn) = Conn::enter(watched.handle) {
                all[watched.index].events = conn.kernel_interest(all[watched.index].events);
            }
        }
        let bells = waiter.iter().flat_map(|waiter| waiter.bells());
        all.extend(bells.map(|bell| pollfd {
            fd: bell.wait_fd().as_raw_fd(),
            events: POLLIN,
            revents: 0,
        }));
    }

    fn kernel_poll(&mut self, waiter: Option<&Waiter>, bed: &Sleep) -> Result<bool, Errno> {
        self.list_all(waiter);
        self.refresh_sets();
        bed.with_lists(&mut self.lists);
        let nap = ReclaimTimer::on_connection();
        let left = left_to_sleep(if self.is_short {
            Deadline::after(STALL).min(self.limit.deadline)
        } else {
            nap.limit(self.limit.deadline)
        });
        self.critical = None;
        let slept = bed.poll(&mut self.lists.all, left, self.mask);
        nap.end();
        self.critical = Critical::enter();
        // A handler may have taken the lists along.
        let n = slept?;
        let count = self.fds.len();
        answer_bells(waiter, &self.lists.all[count..]);
        let Lists { watched, all, .. } = &mut self.lists;
        for watched in watched {
            let entry = &mut all[watched.index];
            if entry.revents == 0 {
                continue;
            }
            if let Some(conn) = Conn::enter(watched.handle) {
                conn.note_kernel_events(entry.revents & !POLLOUT);
                send::serve(&conn);
                entry.revents = 0;
            }
        }
        let told = n == 0 && self.limit.deadline.passed()
            || all[..count].iter().any(|entry| entry.revents != 0);
        // What a set says depends on our own members, too: it is asked again.
        self.answered = told && self.lists.sets.is_empty();
        Ok(told)
    }
}

/// To the program there are no descriptors of ours, whatever becomes of them.
fn hide(fds: &mut [pollfd], bell: Option<RawFd>) {
    for entry in fds.iter_mut().filter(|entry| is_hidden(entry.fd, bell)) {
        entry.fd = -1;
    }
}
