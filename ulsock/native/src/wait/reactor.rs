//! Who waits for many sockets at once, and wakes the tasks that wait for them.
//!
//! A run loop of ours ([`crate::run`]) has a reactor of its own, in which it waits when its tasks have nothing to do: what comes by
//! rings then needs no system call and no other thread. All other executors share one that a thread of its own waits in.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use super::set::{MOST, Set};
use super::source::Source;
use super::times::Times;
use crate::start::{generation, spawn_thread};

/// Of the descriptor by which the wait is ended.
const NOTICE: u64 = u64::MAX;

#[derive(Debug)]
pub struct Reactor {
    set: Set,
    notice: OwnedFd,
    sources: Mutex<Slab<Arc<Source>>>,
    /// How many of them are streams.
    streams: AtomicUsize,
    times: Times,
    /// Its run loop has ended, and a thread waits in its place until the last socket has left.
    alone: AtomicBool,
    /// Its thread ends.
    over: AtomicBool,
    /// The process in which somebody waits here: see [`generation`].
    generation: u32,
}

thread_local! {
    static OWN: RefCell<Option<Arc<Reactor>>> = const { RefCell::new(None) };
}

impl Reactor {
    pub fn new() -> io::Result<Arc<Reactor>> {
        let reactor = Reactor {
            set: Set::new()?,
            notice: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            sources: Mutex::default(),
            streams: AtomicUsize::new(0),
            times: Times::new(),
            alone: AtomicBool::new(false),
            over: AtomicBool::new(false),
            generation: generation(),
        };
        reactor
            .set
            .add(&reactor.notice, EPOLLIN | EPOLLET, NOTICE)?;
        Ok(Arc::new(reactor))
    }

    /// This thread's own, or the one that all others share.
    pub fn current() -> io::Result<Arc<Reactor>> {
        match OWN.with_borrow(Option::clone) {
            Some(own) => Ok(own),
            None => Reactor::shared(),
        }
    }

    /// Made once in each process. Without a lock, which a fork could find taken.
    fn shared() -> io::Result<Arc<Reactor>> {
        static SHARED: AtomicPtr<Arc<Reactor>> = AtomicPtr::new(null_mut());
        let known = SHARED.load(Ordering::Acquire);
        // SAFETY: what was stored here is never freed.
        if let Some(shared) = unsafe { known.as_ref() }
            && shared.is_of_this_process()
        {
            return Ok(shared.clone());
        }
        let fresh = Reactor::new()?;
        fresh.clone().wait_on_a_thread()?;
        let place = Box::into_raw(Box::new(fresh.clone()));
        match SHARED.compare_exchange(known, place, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(fresh),
            Err(other) => {
                fresh.end();
                // SAFETY: not stored anywhere. The other one is never freed.
                let other = unsafe {
                    drop(Box::from_raw(place));
                    &*other
                };
                Ok(other.clone())
            }
        }
    }

    /// In a child of fork nobody waits in its parent's.
    pub fn is_of_this_process(&self) -> bool {
        self.generation == generation()
    }

    pub fn check_process(&self) -> io::Result<()> {
        match self.is_of_this_process() {
            true => Ok(()),
            false => {
                let text = "a wait in the name of the parent process";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }

    /// As long as `inside` runs, sockets that this thread waits for first are its own reactor's.
    pub fn own<T>(self: &Arc<Reactor>, inside: impl FnOnce() -> T) -> T {
        struct Restore(Option<Arc<Reactor>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                OWN.with_borrow_mut(|own| *own = self.0.take());
            }
        }
        let before = OWN.with_borrow_mut(|own| own.replace(self.clone()));
        let _restore = Restore(before);
        inside()
    }

    /// Waits awake for the only stream: a set with its wires takes longer to tell of bytes than a receive. Those that are no
    /// streams, as listeners, can wait for so long. Whether its task was woken.
    pub fn wait_awake(&self, stop: &dyn Fn() -> bool) -> bool {
        if !self.has_one_stream() {
            return false;
        }
        let only = {
            let sources = self.sources();
            let found = sources.iter().find(|(_, source)| source.is_stream());
            found.map(|(_, source)| source.clone())
        };
        only.is_some_and(|only| only.wake_awake(stop))
    }

    pub fn has_one_stream(&self) -> bool {
        self.streams.load(Ordering::Relaxed) == 1
    }

    pub fn register(&self, socket: &impl AsRawFd, source: &Arc<Source>) -> io::Result<usize> {
        let key = self.sources().insert(source.clone());
        let added = self.set.add(
            socket,
            EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
            key as u64,
        );
        match added {
            Ok(()) if source.is_stream() => drop(self.streams.fetch_add(1, Ordering::Relaxed)),
            Ok(()) => {}
            Err(_) => drop(self.sources().remove(key)),
        }
        added.map(|()| key)
    }

    pub fn forget(&self, socket: &impl AsRawFd, key: usize) {
        // The set of a parent process is not ours to change.
        if !self.is_of_this_process() {
            return;
        }
        self.set.remove(socket);
        if self.sources().remove(key).is_stream() {
            self.streams.fetch_sub(1, Ordering::Relaxed);
        }
        self.left();
    }

    /// A place for a timer, of which nobody will hear in a child of fork.
    pub fn add_timer(&self) -> io::Result<usize> {
        self.check_process()?;
        Ok(self.times.add())
    }

    pub fn wake_at(&self, timer: usize, at: Instant, waker: &Waker) -> io::Result<()> {
        self.check_process()?;
        // Who waits here himself looks at the times before.
        if self.times.set(timer, at, waker) && !self.is_own() {
            self.notify();
        }
        Ok(())
    }

    pub fn forget_timer(&self, timer: usize) {
        if self.is_of_this_process() {
            self.times.remove(timer);
            self.left();
        }
    }

    /// A socket or a timer has left.
    fn left(&self) {
        if self.alone.load(Ordering::Acquire) && self.is_deserted() {
            self.end();
        }
    }

    fn is_deserted(&self) -> bool {
        self.sources().is_empty() && self.times.is_empty()
    }

    /// Of the loop that this thread runs.
    fn is_own(&self) -> bool {
        OWN.with_borrow(|own| own.as_ref().is_some_and(|own| ptr::eq(&**own, self)))
    }

    /// Waits until something has happened, or only looks, and wakes the tasks that wait for it.
    pub fn turn(&self, wait: bool) {
        let mut room = [const { MaybeUninit::uninit() }; MOST];
        let time = match wait {
            true => self.times.left(),
            false => Some(Duration::ZERO),
        };
        // One that cannot wait has nothing to tell but the time.
        let events = self.set.wait(&mut room, time).unwrap_or_default();
        for event in events {
            let (events, key) = (event.events, event.u64);
            if key == NOTICE {
                let _ = rustix::io::read(&self.notice, &mut [0; 8]);
                continue;
            }
            let source = self.sources().get(key as usize).cloned();
            if let Some(source) = source {
                source.told(events);
            }
        }
        self.times.ring();
    }

    /// Ends a wait of another thread.
    pub fn notify(&self) {
        let _ = rustix::io::write(&self.notice, &1_u64.to_ne_bytes());
    }

    /// Its run loop has ended: who still has a socket in it may wait for that elsewhere.
    pub fn goes_on_alone(self: Arc<Reactor>) {
        self.alone.store(true, Ordering::Release);
        if !self.is_deserted() {
            // Without a thread such a wait would not end, but the sockets can still be used.
            let _ = self.wait_on_a_thread();
        }
    }

    fn wait_on_a_thread(self: Arc<Reactor>) -> io::Result<()> {
        spawn_thread("ulsock-reactor", move || {
            while !self.over.load(Ordering::Acquire) {
                self.turn(true);
            }
        })
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.notify();
    }

    fn sources(&self) -> MutexGuard<'_, Slab<Arc<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
