//! Waiting for many fds: poll and select. Timeouts become timespecs here; what the kernel would
//! refuse goes to it as it came.

use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, suseconds_t, timespec, timeval};
use std::mem::MaybeUninit;
use std::ptr::null;
use ulsock::api::{self, Verdict};

const NANOS: i64 = 1_000_000_000;

/// A timeout in milliseconds; negative waits for ever.
pub fn from_millis(ms: c_int) -> Option<timespec> {
    (ms >= 0).then(|| timespec {
        tv_sec: i64::from(ms / 1000),
        tv_nsec: i64::from(ms % 1000) * 1_000_000,
    })
}

/// The pointer that `api` expects: null waits for ever.
pub fn pointer(timeout: &Option<timespec>) -> *const timespec {
    timeout.as_ref().map_or(null(), |timeout| timeout)
}

/// Would the kernel take this timeout?
pub unsafe fn valid(timeout: *const timespec) -> bool {
    // SAFETY: the program's own timeout, null or valid.
    unsafe {
        timeout.is_null()
            || (!api::is_bad(timeout, size_of::<timespec>())
                && (*timeout).tv_sec >= 0
                && (0..NANOS).contains(&(*timeout).tv_nsec))
    }
}

/// A timeval as glibc's select reads it: microseconds beyond a second carry over.
fn from_timeval(time: &timeval) -> Option<timespec> {
    (time.tv_sec >= 0 && time.tv_usec >= 0).then(|| timespec {
        tv_sec: time.tv_sec.saturating_add(time.tv_usec / 1_000_000),
        tv_nsec: time.tv_usec % 1_000_000 * 1000,
    })
}

pub fn now() -> timespec {
    let mut now = MaybeUninit::uninit();
    // SAFETY: the clock exists on every Linux, so the call fills `now`.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    }
}

/// What is left of `timeout` after a wait that began at `start`.
pub fn left(timeout: &timespec, start: &timespec) -> timespec {
    let now = now();
    let mut sec = timeout.tv_sec - (now.tv_sec - start.tv_sec);
    let mut nsec = timeout.tv_nsec - (now.tv_nsec - start.tv_nsec);
    while nsec < 0 {
        (sec, nsec) = (sec - 1, nsec + NANOS);
    }
    if sec < 0 {
        (sec, nsec) = (0, 0);
    }
    timespec {
        tv_sec: sec + nsec / NANOS,
        tv_nsec: nsec % NANOS,
    }
}

/// `select` with a finite timeout: Linux writes the time left back, after a failure too.
unsafe fn select_until(
    nfds: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: &mut timeval,
) -> Verdict {
    let Some(timeout) = from_timeval(time) else {
        return Verdict::Bypass;
    };
    let start = now();
    // SAFETY: the program's own sets.
    let verdict = unsafe { api::select(nfds, read, write, except, &timeout, null()) };
    if let Verdict::Done(_) | Verdict::Fail(_) = verdict {
        let left = left(&timeout, &start);
        time.tv_sec = left.tv_sec;
        time.tv_usec = (left.tv_nsec / 1000) as suseconds_t;
    }
    verdict
}

hooks! {
    redhook fn poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int {
        let timeout = from_millis(ms);
        answer!(api::poll(fds, count, pointer(&timeout), null()), real()(fds, count, ms))
    }

    redhook fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        answer!(
            if valid(timeout) { api::poll(fds, count, timeout, mask) } else { Verdict::Bypass },
            real()(fds, count, timeout, mask)
        )
    }

    redhook fn select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int {
        let nfds = api::select_limit(nfds);
        answer!(
            match time.as_mut() {
                Some(time) => select_until(nfds, read, write, except, time),
                None => api::select(nfds, read, write, except, null(), null()),
            },
            real()(nfds, read, write, except, time)
        )
    }

    redhook fn pselect(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        let nfds = api::select_limit(nfds);
        answer!(
            if valid(timeout) { api::select(nfds, read, write, except, timeout, mask) } else { Verdict::Bypass },
            real()(nfds, read, write, except, timeout, mask)
        )
    }
}

aliases! {
    fn __poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int = poll;
    fn __select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int = select;
}
