//! What an endpoint has to look at next: links on which something has happened, and handlers that were woken. Any thread
//! may wake; only the endpoint's own looks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Listener,
    Link(usize),
    Handler(usize),
}

#[derive(Debug, Default)]
pub struct Ready {
    queues: Mutex<Queues>,
    /// How many there are of each: most looks find nothing, and need no lock then.
    links: AtomicUsize,
    handlers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    links: VecDeque<Woken>,
    handlers: VecDeque<usize>,
    /// Who extracts.
    driver: Option<Waker>,
}

impl Ready {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this task is woken when there is something to look at. Whether there is something already.
    pub fn drive(&self, waker: &Waker) -> bool {
        let mut queues = self.queues();
        let known = queues.driver.as_ref();
        if !known.is_some_and(|known| known.will_wake(waker)) {
            queues.driver = Some(waker.clone());
        }
        !queues.links.is_empty() || !queues.handlers.is_empty()
    }

    pub fn next_link(&self) -> Option<Woken> {
        if self.links.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queues = self.queues();
        let next = queues.links.pop_front();
        self.links.store(queues.links.len(), Ordering::Relaxed);
        next
    }

    /// How many handlers wait for their turn.
    pub fn handlers(&self) -> usize {
        self.handlers.load(Ordering::Relaxed)
    }

    pub fn next_handler(&self) -> Option<usize> {
        let mut queues = self.queues();
        let next = queues.handlers.pop_front();
        self.handlers
            .store(queues.handlers.len(), Ordering::Relaxed);
        next
    }

    fn push(&self, woken: Woken) {
        let mut queues = self.queues();
        match woken {
            Woken::Handler(number) => queues.handlers.push_back(number),
            other => queues.links.push_back(other),
        }
        self.links.store(queues.links.len(), Ordering::Relaxed);
        self.handlers
            .store(queues.handlers.len(), Ordering::Relaxed);
        let driver = queues.driver.take();
        drop(queues);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// Puts one of them into the queue, once until it is looked at.
#[derive(Debug)]
pub struct Alarm {
    woken: Woken,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Alarm {
    pub fn new(woken: Woken, ready: &Arc<Ready>) -> Arc<Alarm> {
        Arc::new(Alarm {
            woken,
            queued: AtomicBool::new(false),
            ready: ready.clone(),
        })
    }

    /// It is looked at: what happens from now on is new.
    pub fn looked_at(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.woken);
        }
    }
}
