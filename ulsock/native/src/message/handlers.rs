//! Handlers: what is done with a message of each number, and those that are not done yet.
//!
//! A handler that ends without waiting, as most do, costs no allocation: its future lies where that of the one before it was.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use slab::Slab;

use super::credit::Class;
use super::error::MessageError;
use super::incoming::Incoming;
use super::ready::{Alarm, Ready, Woken};

type Outcome = Result<(), MessageError>;

/// In the place of a handler's number: tasks that were spawned and have not run yet.
const FRESH: usize = usize::MAX;

/// A handler of any type.
pub trait Start {
    /// Runs it until it waits for the first time, or to its end.
    fn start(&self, incoming: Incoming, task: &mut Context<'_>) -> Option<Box<dyn Running>>;
}

pub trait Running {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Outcome>;
}

type Place<F> = Pin<Box<Option<F>>>;

impl<F: Future<Output = Outcome>> Running for Place<F> {
    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Outcome> {
        match self.as_mut().as_pin_mut() {
            Some(future) => future.poll(task),
            None => Poll::Ready(Ok(())),
        }
    }
}

pub struct Handler<M, F> {
    make: M,
    spare: RefCell<Option<Place<F>>>,
}

impl<M, F> Handler<M, F> {
    pub fn new(make: M) -> Handler<M, F> {
        Handler {
            make,
            spare: RefCell::new(None),
        }
    }
}

impl<M, F> Start for Handler<M, F>
where
    M: Fn(Incoming) -> F,
    F: Future<Output = Outcome> + 'static,
{
    fn start(&self, incoming: Incoming, task: &mut Context<'_>) -> Option<Box<dyn Running>> {
        // Taken, because a handler may be started by what another one does.
        let spare = self.spare.borrow_mut().take();
        let mut place = spare.unwrap_or_else(|| Box::pin(None));
        place.as_mut().set(Some((self.make)(incoming)));
        if place.poll(task).is_pending() {
            return Some(Box::new(place));
        }
        place.as_mut().set(None);
        *self.spare.borrow_mut() = Some(place);
        None
    }
}

struct Waiting {
    /// Away while it is polled.
    running: Option<Box<dyn Running>>,
    class: Class,
    alarm: Arc<Alarm>,
    waker: Waker,
}

/// All handlers of an endpoint.
pub struct Handlers {
    known: RefCell<Vec<(u16, Rc<dyn Start>)>>,
    waiting: RefCell<Slab<Waiting>>,
    /// Of the next one that is started.
    spare: RefCell<Option<(usize, Arc<Alarm>, Waker)>>,
    ready: Arc<Ready>,
    fresh: RefCell<Vec<Box<dyn Running>>>,
    fresh_alarm: Arc<Alarm>,
}

impl Handlers {
    pub fn new(ready: &Arc<Ready>) -> Handlers {
        Handlers {
            known: RefCell::default(),
            waiting: RefCell::default(),
            spare: RefCell::default(),
            ready: ready.clone(),
            fresh: RefCell::default(),
            fresh_alarm: Alarm::new(Woken::Handler(FRESH), ready),
        }
    }

    pub fn insert(&self, number: u16, handler: Rc<dyn Start>) {
        let mut known = self.known.borrow_mut();
        match known.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => {
                let before = std::mem::replace(&mut known[at].1, handler);
                drop(known);
                drop(before);
            }
            Err(at) => known.insert(at, (number, handler)),
        }
    }

    pub fn find(&self, number: u16) -> Option<Rc<dyn Start>> {
        let known = self.known.borrow();
        let at = known
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()?;
        Some(known[at].1.clone())
    }

    /// Runs one that begins until it waits.
    pub fn start(&self, handler: &dyn Start, incoming: Incoming, class: Class) {
        let key = self.waiting.borrow().vacant_key();
        let spare = self.spare.take().filter(|spare| spare.0 == key);
        let (_, alarm, waker) = spare.unwrap_or_else(|| {
            let alarm = Alarm::new(Woken::Handler(key), &self.ready);
            (key, alarm.clone(), Waker::from(alarm))
        });
        // A waker of the one before may have rung it for nobody.
        alarm.looked_at();
        let running = handler.start(incoming, &mut Context::from_waker(&waker));
        let Some(running) = running else {
            *self.spare.borrow_mut() = Some((key, alarm, waker));
            return;
        };
        let at = self.waiting.borrow_mut().insert(Waiting {
            running: Some(running),
            class,
            alarm,
            waker,
        });
        debug_assert_eq!(at, key);
    }

    /// What the message of this handler was sent as.
    pub fn class(&self, key: usize) -> Option<Class> {
        if key == FRESH {
            return Some(Class::Reply);
        }
        Some(self.waiting.borrow().get(key)?.class)
    }

    /// Runs one that was woken.
    pub fn run(&self, key: usize) {
        if key == FRESH {
            return self.run_fresh();
        }
        let taken = self.waiting.borrow_mut().get_mut(key).and_then(|waiting| {
            waiting.alarm.looked_at();
            Some((waiting.running.take()?, waiting.waker.clone()))
        });
        let Some((mut running, waker)) = taken else {
            return;
        };
        let polled = running.poll(&mut Context::from_waker(&waker));
        let mut all = self.waiting.borrow_mut();
        match polled {
            Poll::Ready(_) => {
                let done = all.try_remove(key);
                drop(all);
                drop((done, running));
            }
            Poll::Pending => {
                if let Some(waiting) = all.get_mut(key) {
                    waiting.running = Some(running);
                }
            }
        }
    }

    /// Runs a future as if it were a handler, from the next turn on: a handler that is being started has its number already.
    pub fn spawn(&self, future: impl Future<Output = Outcome> + 'static) {
        let place: Place<_> = Box::pin(Some(future));
        self.fresh.borrow_mut().push(Box::new(place));
        self.fresh_alarm.wake_by_ref();
    }

    fn run_fresh(&self) {
        self.fresh_alarm.looked_at();
        for running in self.fresh.take() {
            let mut all = self.waiting.borrow_mut();
            let place = all.vacant_entry();
            let key = place.key();
            let alarm = Alarm::new(Woken::Handler(key), &self.ready);
            place.insert(Waiting {
                running: Some(running),
                class: Class::Reply,
                waker: Waker::from(alarm.clone()),
                alarm,
            });
            drop(all);
            self.run(key);
        }
    }

    /// At the end of the endpoint: handlers hold links, and links the endpoint's parts.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.waiting.borrow_mut());
        drop(all);
        drop(self.fresh.take());
        let known = self.known.take();
        drop(known);
    }
}
