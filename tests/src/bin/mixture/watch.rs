//! A thread that sleeps in a set of one-shot members and passes on what it is told.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tests::sock::Epoll;

/// A lost wake-up.
const STALL: Duration = Duration::from_secs(5);

pub struct Watch {
    set: Arc<Epoll>,
    told: Receiver<(i32, u64)>,
}

impl Watch {
    pub fn start() -> Self {
        let set = Arc::new(Epoll::new().expect("epoll"));
        let (sender, told) = channel();
        let theirs = set.clone();
        std::thread::spawn(move || {
            while let Ok(events) = theirs.wait(-1) {
                for event in events {
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        Self { set, told }
    }

    pub fn add(&self, fd: RawFd, events: i32, number: u64) {
        let events = events | libc::EPOLLONESHOT;
        self.set.add(fd, events, number).expect("add");
    }

    pub fn modify(&self, fd: RawFd, events: i32, number: u64) {
        let events = events | libc::EPOLLONESHOT;
        self.set.modify(fd, events, number).expect("modify");
    }

    pub fn remove(&self, fd: RawFd) {
        self.set.remove(fd).expect("remove");
    }

    /// The next event; `None` after a long time without one.
    pub fn next(&self) -> Option<(i32, u64)> {
        self.told.recv_timeout(STALL).ok()
    }
}
