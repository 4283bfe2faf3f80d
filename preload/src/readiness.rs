//! Waiting for many fds: poll and select. Timeouts become timespecs here; what the kernel would
//! refuse goes to it as it came.

use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, suseconds_t, timespec, timeval};
use sockets::api::{self, Verdict};
use std::mem::MaybeUninit;
use std::ptr::null;

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

/// `select`, if it is about one of our sockets.
pub unsafe fn selecting(
    nfds: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> Verdict {
    // SAFETY: the program's own sets.
    unsafe {
        match (api::has_connections(), time.is_null()) {
            (false, _) => Verdict::Bypass,
            (true, true) => api::select(nfds, read, write, except, null(), null()),
            (true, false) => select_until(nfds, read, write, except, time),
        }
    }
}

/// `select` with a finite timeout: Linux writes the time left back, after a failure too.
unsafe fn select_until(
    nfds: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    place: *mut timeval,
) -> Verdict {
    // SAFETY: any bytes are a time.
    let time = unsafe { api::load(place) };
    let Some(timeout) = time.as_ref().and_then(from_timeval) else {
        return Verdict::Bypass;
    };
    let start = now();
    // SAFETY: the program's own sets.
    let verdict = unsafe { api::select(nfds, read, write, except, &timeout, null()) };
    if let Verdict::Done(_) | Verdict::Fail(_) = verdict {
        let left = left(&timeout, &start);
        let left = timeval {
            tv_sec: left.tv_sec,
            tv_usec: (left.tv_nsec / 1000) as suseconds_t,
        };
        // As in the kernel, a time that cannot be written is left as it is.
        api::store(place, left);
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
            api::poll(fds, count, timeout, mask),
            real()(fds, count, timeout, mask)
        )
    }

    redhook fn select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int {
        let nfds = api::select_limit(nfds);
        answer!(selecting(nfds, read, write, except, time), real()(nfds, read, write, except, time))
    }

    redhook fn pselect(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        let nfds = api::select_limit(nfds);
        answer!(
            api::select(nfds, read, write, except, timeout, mask),
            real()(nfds, read, write, except, timeout, mask)
        )
    }
}

aliases! {
    fn __poll(fds: *mut pollfd, count: nfds_t, ms: c_int) -> c_int = poll;
    fn __select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, time: *mut timeval) -> c_int = select;
}
