//! Entries that send, receive and poll, served from rings.
//!
//! Only of an io_uring with IORING_SETUP_DEFER_TASKRUN, which liburing has made: there an operation that has found nothing is
//! looked at again, and completions come, only while the thread that made it waits for them. That wait is ours ([`wait`]).
//! An operation is kept until then, and its connection with it, as the kernel keeps the file. What it needs of the kernel
//! is told by entries that do nothing: one with the result when it is done, one of which nobody hears when it is kept. All other
//! entries are the kernel's as ever, and it works on them beside.

use std::os::fd::{AsRawFd, RawFd};

use libc::{c_int, timespec};
use os::fds::to_high;
use os::uring::{self, Sqe, sqe};
use rendezvous::reason::Reason;
use rustix::event::{EventfdFlags, eventfd};
use smallvec::SmallVec;

use super::entry::{self, Plain};
use super::made;
use super::operation::{self, Outcome};
use super::program::{Program, links_next};
use super::wait::{Awaited, Limit, wait};
use super::{Liburing, before_submit};
use crate::conn::handover::{self, Rest};
use crate::conn::kept;
use crate::promote::for_good;
use crate::runtime::cancel;
use crate::runtime::handle::Handle;
use crate::runtime::process;
use crate::state::process_group;
use crate::state::record::flag;
use crate::state::urings::{self, KeptOperation, Served, Uring};

/// All are looked at in every wait: more would cost more than the kernel does.
const MOST_KEPT: usize = 256;
/// Ends of streams and errors are looked for in one of so many calls, if none waits.
const THOROUGH: u32 = 16;

/// A call of a function of liburing's.
#[derive(Clone, Copy)]
pub struct Call {
    pub submits: bool,
    /// Hears of completions, also if it waits for none.
    pub hears: bool,
    /// Completions to wait for, and how long.
    pub wanted: u32,
    pub limit: Limit,
}

/// How the real function is to be called.
#[derive(Clone, Copy)]
pub enum Real {
    AsItIs,
    /// Only the kernel has something to wait for, for this time.
    Rest(timespec),
    /// The wait is over.
    WithoutWait,
}

pub struct Serving<'a> {
    pub program: &'a Program,
    pub served: &'a mut Served,
    /// The program submits: all its entries are written.
    submits: bool,
    /// Results in entries of the program's that the kernel has not taken yet.
    told: u32,
    /// Entries of the program's that are taken.
    taken: u32,
    /// The program's entries were looked at: some are ours, and have their places.
    is_begun: bool,
    /// The kernel is to have one that was ours: it is in the program's queue again.
    is_restored: bool,
}

/// What is left to do when the serving is over.
struct Left {
    /// `None`: a handler has run, and there is nothing to tell.
    real: Option<Real>,
    /// Entries of the program's that are taken already, and of ours that the kernel is to take behind the rest.
    taken: u32,
    own: u32,
    /// Completions may be those of sockets that the kernel makes.
    makes: bool,
}

impl Left {
    fn finish(self, program: &Program, real: &impl Fn(Real) -> c_int) -> c_int {
        let Some(how) = self.real else {
            return -libc::EINTR;
        };
        match real(how) {
            more @ 0.. => {
                // What it has not taken are the last ones, and ours are behind the program's.
                let own = self.own.saturating_sub(program.count());
                (self.taken + (more as u32).saturating_sub(own)) as c_int
            }
            _ if self.taken > 0 => self.taken as c_int,
            error => error,
        }
    }
}

/// Instead of a function of liburing's that submits, waits or both.
///
/// # Safety
/// `given` is the structure that it was given; `known`: it is of a version that we know.
pub unsafe fn instead(
    given: *mut Liburing,
    known: bool,
    call: Call,
    real: impl Fn(Real) -> c_int,
) -> c_int {
    if known && urings::any_is_served() {
        // SAFETY: as the caller says.
        if let Some(program) = unsafe { Program::new(given) }
            && let Some(uring) = urings::of(program.fd())
            && let Some(left) = serve(given, &program, uring, call)
        {
            let makes = left.makes;
            let answer = left.finish(&program, &real);
            if makes {
                made::look_after(&program, uring);
            }
            return answer;
        }
    }
    if call.submits {
        // SAFETY: as the caller says.
        unsafe { before_submit(given, known) };
    }
    real(Real::AsItIs)
}

/// `None`: it is not served.
fn serve(given: *mut Liburing, program: &Program, uring: &Uring, call: Call) -> Option<Left> {
    let mut served = uring.borrow_served()?;
    served.place = given as usize;
    let mut serving = Serving::new(program, &mut served, call.submits);
    if serving.must_stop() {
        serving.stop();
        served.end();
        return None;
    }
    // liburing's functions are no cancellation points.
    Some(cancel::disabled(|| serving.run(given, call)))
}

impl<'a> Serving<'a> {
    pub fn new(program: &'a Program, served: &'a mut Served, submits: bool) -> Serving<'a> {
        Serving {
            program,
            served,
            submits,
            told: 0,
            taken: 0,
            is_begun: false,
            is_restored: false,
        }
    }

    /// Is there something that concerns operations which only we know of?
    fn must_stop(&self) -> bool {
        let mut linked = false;
        let mut stops = |place: *mut Sqe| {
            // SAFETY: an entry of the mapped queue.
            let entry = unsafe { uring::copy(place) };
            let after_another = std::mem::replace(&mut linked, links_next(&entry));
            let is_plain = !after_another && entry::cancelled(&entry).is_some();
            entry.flags & sqe::IO_DRAIN != 0
                || entry::cancels(&entry) && !is_plain && !self.served.kept.is_empty()
        };
        self.served.is_watched
            || process::is_frozen()
            || self.submits && self.program.places().any(&mut stops)
    }

    fn run(&mut self, given: *mut Liburing, call: Call) -> Left {
        if self.submits {
            let ours = self.begin_all();
            // SAFETY: the structure that the call was given, of a version that we know.
            unsafe { before_submit(given, true) };
            made::note(self.program, self.served);
            let others = self.program.count() > ours || self.is_restored;
            self.served.kernel_works |= others;
            if others && call.hears {
                self.submit();
            }
        }
        let awaited = match call.hears {
            true => wait(self, call),
            false => Awaited::Enough,
        };
        if self.submits {
            self.settle();
        }
        let own = self.tell();
        let left = |real| Left {
            real,
            taken: self.taken,
            own,
            makes: !self.served.makers.is_empty(),
        };
        let is_silent = || self.taken + self.program.count() + self.program.completions() == 0;
        left(match awaited {
            Awaited::Enough => Some(Real::AsItIs),
            Awaited::ByKernel(rest) => Some(rest.map_or(Real::AsItIs, Real::Rest)),
            Awaited::Interrupted if is_silent() => None,
            Awaited::Interrupted | Awaited::TooLate => Some(Real::WithoutWait),
        })
    }

    /// The entries that the program submits, in their order: how many are ours.
    fn begin_all(&mut self) -> u32 {
        self.give_back_before();
        self.is_begun = true;
        let (mut linked, mut ours) = (false, 0);
        // What the kernel works on it works on later than we would.
        let mut kernels: SmallVec<[RawFd; 8]> = SmallVec::new();
        for place in self.program.places() {
            // SAFETY: an entry of the mapped queue.
            let entry = unsafe { uring::copy(place) };
            let after_another = std::mem::replace(&mut linked, links_next(&entry));
            if !after_another && !kernels.contains(&entry.fd) && self.begin(&entry, place) {
                ours += 1;
            } else if entry::concerns_us(&entry) {
                for fd in entry::named(&entry).into_iter().filter(|fd| *fd >= 0) {
                    self.give_back_all(|kept| kept.handle.fd == fd && !kept.place.is_null());
                    kernels.push(fd);
                }
            }
        }
        ours
    }

    /// Before the kernel works on a connection it is given what is kept of it.
    fn give_back_before(&mut self) {
        if self.served.kept.is_empty() {
            return;
        }
        let mut kernels: SmallVec<[RawFd; 8]> = SmallVec::new();
        for place in self.program.places() {
            // SAFETY: an entry of the mapped queue.
            let entry = unsafe { uring::copy(place) };
            if entry::plain(&entry).is_none() && entry::concerns_us(&entry) {
                kernels.extend(entry::named(&entry).into_iter().filter(|fd| *fd >= 0));
            }
        }
        self.give_back_all(|kept| kernels.contains(&kept.handle.fd));
    }

    /// `true`: the entry is ours.
    fn begin(&mut self, entry: &Sqe, place: *mut Sqe) -> bool {
        if entry::cancels(entry) {
            return self.cancel(entry, place);
        }
        if entry::plain(entry).is_none() || !entry::must_return(entry.fd) {
            return false;
        }
        let Some((family, number, record)) = process_group::record_of(entry.fd) else {
            return false;
        };
        let handle = Handle::new(family, number, entry.fd);
        let is_full = self.served.kept.len() >= MOST_KEPT;
        let outcome = match self.has_unsent(entry, handle) {
            _ if record.has(flag::SHARED) || is_full => Outcome::Kernel,
            true => Outcome::Nothing,
            false => operation::attempt(entry),
        };
        match outcome {
            Outcome::Done(result) => self.told_at(place, entry.user_data, result),
            Outcome::Nothing => {
                kept::keep(handle);
                let entry = *entry;
                self.served.kept.push(KeptOperation {
                    entry,
                    handle,
                    place,
                });
                uring::overwrite(place, entry::kept());
            }
            // It is returned with all others that are not served.
            Outcome::Kernel => return false,
        }
        true
    }

    /// Does it send behind bytes that wait to be sent?
    fn has_unsent(&self, entry: &Sqe, handle: Handle) -> bool {
        let sends = |entry: &Sqe| entry::plain(entry) == Some(Plain::Transmit);
        let mut kept = self.served.kept.iter();
        sends(entry) && kept.any(|kept| kept.handle == handle && sends(&kept.entry))
    }

    fn told_at(&mut self, place: *mut Sqe, user_data: u64, result: i32) {
        uring::overwrite(place, entry::nop(user_data, result));
        self.told += 1;
    }

    /// As the kernel cancels one of this name, if it is one of those that are kept.
    fn cancel(&mut self, entry: &Sqe, place: *mut Sqe) -> bool {
        let is_it = |kept: &KeptOperation| {
            entry::cancelled(entry).is_some_and(|cancelled| cancelled.is(&kept.entry))
        };
        let Some(at) = self.served.kept.iter().position(is_it) else {
            return false;
        };
        self.told_at(place, entry.user_data, 0);
        self.done(at, -libc::ECANCELED);
        true
    }

    /// One that was kept is done.
    fn done(&mut self, at: usize, result: i32) {
        let KeptOperation { entry, place, .. } = self.served.kept[at];
        match place.is_null() {
            true => self.served.own.push(entry::nop(entry.user_data, result)),
            false => self.told_at(place, entry.user_data, result),
        }
        self.release(at);
    }

    fn release(&mut self, at: usize) {
        let KeptOperation { handle, .. } = self.served.kept.remove(at);
        kept::left(handle.number);
    }

    /// Completions that are there, or will be as soon as the kernel is told.
    pub fn completions(&self) -> u32 {
        self.program.completions() + self.told + self.served.own.len() as u32
    }

    /// A bell that rings when the kernel has something to tell: the descriptor of such an io_uring wakes nobody before the
    /// thread enters the kernel (Linux 6.18). `None`: it cannot have one.
    pub fn bell(&mut self) -> Option<RawFd> {
        if self.served.bell.is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let bell = eventfd(0, flags).and_then(to_high).ok()?;
            uring::set_bell(self.program.fd(), bell.as_raw_fd()).ok()?;
            self.served.bell = Some(bell);
        }
        self.served.bell.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Before a sleep the program's entries are the kernel's: a handler may submit others.
    pub fn submit_before_sleep(&mut self) {
        if self.submits && self.program.count() > 0 {
            self.submit();
        }
    }

    /// What the kernel has done meanwhile.
    pub fn hear(&mut self) {
        self.program.flush();
        made::look(self.program, self.served);
    }

    fn submit(&mut self) {
        self.settle();
        self.told = 0;
        self.taken += self.program.submit();
        made::look(self.program, self.served);
    }

    /// The entries are the kernel's from here on, without those that are kept.
    fn settle(&mut self) {
        let mut any = false;
        for kept in &mut self.served.kept {
            any |= !kept.place.is_null();
            kept.place = std::ptr::null_mut();
        }
        if any {
            self.taken += self.program.take_out(entry::kept());
        }
    }

    /// Entries of ours go behind the program's if that is about to submit, else by themselves: how many go with them.
    fn tell(&mut self) -> u32 {
        let own = std::mem::take(&mut self.served.own);
        if !self.submits {
            self.program.tell(&own);
            return 0;
        }
        let appended = |entry: &&Sqe| self.program.append(**entry);
        let fitting = own.iter().take_while(appended).count();
        if fitting < own.len() {
            self.program.submit_before(&own[fitting..]);
        }
        fitting as u32
    }

    /// What has come for those that are kept.
    pub fn collect(&mut self, is_thorough: bool) {
        self.served.calls = self.served.calls.wrapping_add(1);
        match is_thorough || self.served.calls.is_multiple_of(THOROUGH) {
            true => self.collect_from(|_| true),
            false => self.collect_quickly(),
        }
    }

    /// The same without ends and errors.
    pub fn collect_quickly(&mut self) {
        let mut at = 0;
        while let Some(kept) = self.served.kept.get(at) {
            let is_open = kept.handle.is_open();
            match is_open.then(|| operation::quickly(&kept.entry)).flatten() {
                Some(result) => self.done(at, result),
                None => at += 1,
            }
        }
    }

    /// The same, also ends and errors, of those that are `ready`.
    pub fn collect_from(&mut self, ready: impl Fn(&KeptOperation) -> bool) {
        let mut at = 0;
        while let Some(kept) = self.served.kept.get(at) {
            match ready(kept).then(|| operation::again(kept)) {
                Some(Outcome::Done(result)) => self.done(at, result),
                Some(Outcome::Kernel) => self.give_back(at),
                Some(Outcome::Nothing) | None => at += 1,
            }
        }
    }

    /// Only the kernel can wait for those whose number the program has closed.
    pub fn give_back_closed(&mut self) {
        self.give_back_all(|kept| !kept.handle.is_open());
    }

    fn give_back_all(&mut self, which: impl Fn(&KeptOperation) -> bool) {
        while let Some(at) = self.served.kept.iter().position(&which) {
            self.give_back(at);
        }
    }

    /// The kernel is given all that is kept.
    pub fn stop(&mut self) {
        if self.served.bell.take().is_some() {
            let _ = uring::set_bell(self.program.fd(), -1);
        }
        self.give_back_all(|_| true);
    }

    /// At a number that means it still, which the kernel needs only until it has taken the entry.
    fn give_back(&mut self, at: usize) {
        let KeptOperation {
            entry,
            handle,
            place,
        } = self.served.kept[at];
        let (here, is_open) = (handle.here(), handle.is_open());
        match is_open {
            true => for_good::return_for_uring(here.fd),
            false => handover::hand_over(&[here], Reason::IoUring, Rest::StandIn),
        }
        let entry = Sqe {
            fd: here.fd,
            ..entry
        };
        if place.is_null() && self.is_begun && self.program.count() > 0 {
            // Entries that have their places must not move.
            self.submit();
        }
        match place.is_null() {
            true if self.submits => self.program.submit_before(&[entry]),
            true => self.program.submit_own(&[entry]),
            // The program has it ready, and it goes with the rest.
            false => {
                uring::overwrite(place, entry);
                self.is_restored = true;
            }
        }
        if !place.is_null() && !is_open {
            // The number is ours, and closed as soon as nobody keeps the connection.
            self.served.kept[at].place = std::ptr::null_mut();
            self.submit();
        }
        self.served.kernel_works = true;
        self.release(at);
    }
}
