//! An epoll set whose calls print what they gave.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::os::fd::RawFd;

use crate::world::{bits, close, dup, result};

/// A set, by its number; not closed on drop, because some scenarios close it themselves.
#[derive(Clone, Copy)]
pub struct Set(pub RawFd);

impl Set {
    pub fn new() -> Self {
        // SAFETY: a plain number.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0);
        Self(fd)
    }

    pub fn dup(self) -> Self {
        Self(dup(self.0))
    }

    pub fn close(self) {
        close(self.0);
    }

    pub fn add(self, fd: RawFd, events: c_int, data: u64) -> String {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    pub fn modify(self, fd: RawFd, events: c_int, data: u64) -> String {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data)
    }

    pub fn remove(self, fd: RawFd) -> String {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    pub fn control(self, operation: c_int, fd: RawFd, events: c_int, data: u64) -> String {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        // SAFETY: `event` is a local.
        result(unsafe { libc::epoll_ctl(self.0, operation, fd, &mut event) } as isize)
    }

    /// (data, events) of up to `max` members, ordered by data.
    pub fn take(self, max: usize, timeout_ms: c_int) -> Vec<(u64, c_int)> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; max];
        // SAFETY: pointer and length describe `events`.
        let n = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), max as c_int, timeout_ms) };
        assert!(n >= 0, "epoll_wait: {}", result(n as isize));
        let told = events[..n as usize].iter();
        let mut told: Vec<_> = told
            .map(|event| (event.u64, event.events as c_int))
            .collect();
        told.sort_unstable();
        told
    }

    /// The same as text.
    pub fn wait(self, timeout_ms: c_int) -> String {
        Self::text(&self.take(64, timeout_ms))
    }

    fn text(told: &[(u64, c_int)]) -> String {
        if told.is_empty() {
            return "nothing".to_owned();
        }
        let told = told
            .iter()
            .map(|(data, events)| format!("{data}={}", bits(*events)));
        told.collect::<Vec<_>>().join(" ")
    }

    /// What holds now. Waits a moment first: an event that is to come shall have come.
    pub fn now(self) -> String {
        crate::world::settle();
        self.wait(0)
    }

    /// What holds now, where some members are the kernel's and some are not: they may come in
    /// different waits.
    pub fn all(self) -> String {
        crate::world::settle();
        let waits = (0..10).flat_map(|_| self.take(64, 0));
        let told: BTreeSet<(u64, c_int)> = waits.collect();
        Self::text(&told.into_iter().collect::<Vec<_>>())
    }
}
