//! Waiting awake in a set, for what kernel TCP brings to its members ([`crate::runtime::awake`]).

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::{POLLIN, c_int, epoll_event, sigset_t, timespec};

use super::plain::KernelWait;
use super::set::Set;
use super::wait::Begun;
use crate::runtime::awake::{SHORT, Waited, until};
use crate::runtime::thread::Thread;
use crate::state::verdict::Verdict;
use os::epoll as kernel;
use os::poll::has_something;

/// So many answers of the kernel in a row show that no ring has any.
const KERNELS_ALONE: u32 = 8;

/// What the program has asked for.
#[derive(Clone, Copy)]
pub struct WaitCall<'a> {
    pub epfd: RawFd,
    pub events: *mut epoll_event,
    pub max: c_int,
    pub timeout: Option<&'a timespec>,
    pub mask: *const sigset_t,
}

impl WaitCall<'_> {
    /// Whether it waits long enough. A mask of its own would have to hold while it looks.
    #[inline]
    fn is_patient(&self) -> bool {
        let long = |time: &timespec| time.tv_sec > 0 || time.tv_nsec >= SHORT.as_nanos() as i64;
        self.mask.is_null() && self.max > 0 && self.timeout.is_none_or(long)
    }

    /// What the kernel has now; `None`: nothing, or the call itself will tell.
    ///
    /// # Safety
    /// The arguments are those of the program's wait.
    unsafe fn look(&self) -> Option<usize> {
        // SAFETY: the caller says that there is room for so many events, which the kernel checks.
        let told = unsafe { kernel::look(self.epfd, self.events, self.max) };
        told.ok().filter(|n| *n > 0)
    }
}

impl Set {
    /// A wait in a set whose members are all the kernel's; `doze` if other threads could change that. What it has found, or else
    /// how the call is to be made.
    ///
    /// # Safety
    /// The arguments are those of the program's wait.
    #[inline]
    pub unsafe fn wait_plainly(
        &self,
        me: &'static Thread,
        call: WaitCall<'_>,
        doze: Option<KernelWait>,
    ) -> Begun {
        let begin =
            |doze: Option<KernelWait>| doze.map_or(Begun::Verdict(Verdict::Bypass), Begun::Plain);
        if !self.awake.load(Ordering::Relaxed) || !call.is_patient() || call.events.is_null() {
            return begin(doze);
        }
        // SAFETY: the caller's promise.
        let look = || unsafe { call.look() };
        let (n, verdict) = match until(me, look) {
            Waited::Found(n) => (n as c_int, Verdict::Done(n as isize)),
            Waited::Handler => (-1, Verdict::Fail(libc::EINTR)),
            Waited::Nothing => return begin(doze),
        };
        let WaitCall {
            epfd,
            events,
            max,
            mask,
            ..
        } = call;
        // SAFETY: the arguments of the wait, which the kernel has not refused.
        let more = doze.and_then(|doze| unsafe { doze.end(n, epfd, events, max, mask) });
        Begun::Verdict(more.unwrap_or(verdict))
    }

    /// Is it kernel TCP that brings what is waited for here?
    pub fn waits_for_kernel(&self) -> bool {
        self.awake.load(Ordering::Relaxed)
            && self.by_kernel.load(Ordering::Relaxed) >= KERNELS_ALONE
    }

    /// A wait has been answered, by the kernel or by rings.
    #[inline]
    pub fn note_answer(&self, by_kernel: bool) {
        let count = match by_kernel {
            true => (self.by_kernel.load(Ordering::Relaxed) + 1).min(KERNELS_ALONE),
            false => 0,
        };
        self.by_kernel.store(count, Ordering::Relaxed);
    }

    /// Waits awake in a set that has had members of ours; `posted` says whether they have rung.
    pub fn look_awake(&self, me: &'static Thread, epfd: RawFd, posted: impl Fn() -> bool) {
        let look = || (posted() || has_something(epfd, POLLIN)).then_some(());
        // Whatever has come, the kernel's wait finds it.
        let _ = until(me, look);
    }
}
