//! A run loop for one thread: tasks that only this thread runs, and a wait for rings when none of them has anything to
//! do. A program with one per core pins each thread to its core (see the example `cores`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use slab::Slab;

use crate::future::TcpStream;
use crate::timer::Timer;
use crate::wait::Reactor;

/// The future that `block_on` was given.
const MAIN: usize = usize::MAX;

/// Tasks that are run between two looks at the sockets.
const POLLS: usize = 64;

/// Tasks to be run, which any thread may name.
struct Ready {
    numbers: Mutex<VecDeque<usize>>,
    /// How many.
    count: AtomicUsize,
    thread: ThreadId,
    /// The loop waits, or is about to.
    waits: AtomicBool,
    /// Another thread has named a task meanwhile.
    named: AtomicBool,
    reactor: Arc<Reactor>,
}

impl Ready {
    fn numbers(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    fn pop(&self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let mut numbers = self.numbers();
        let number = numbers.pop_front();
        self.count.store(numbers.len(), Ordering::Relaxed);
        number
    }

    fn push(&self, number: usize) {
        {
            let mut numbers = self.numbers();
            numbers.push_back(number);
            self.count.store(numbers.len(), Ordering::SeqCst);
        }
        // Who is about to wait says so and then looks: one of the two sees the other.
        if self.waits.load(Ordering::SeqCst) && thread::current().id() != self.thread {
            self.named.store(true, Ordering::Release);
            self.reactor.notify();
        }
    }
}

/// Wakes one task.
struct Alarm {
    number: usize,
    /// It is in the queue already.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.number);
        }
    }
}

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Spawned {
    /// Away while it runs.
    future: Option<LocalFuture>,
    alarm: Arc<Alarm>,
}

struct Tasks {
    spawned: RefCell<Slab<Spawned>>,
    ready: Arc<Ready>,
    /// Since the last look at the sockets.
    polls: Cell<usize>,
}

impl Tasks {
    /// Whether one more task may be run before the next look at the sockets.
    fn may_poll(&self) -> bool {
        self.polls.set(self.polls.get() + 1);
        self.polls.get() <= POLLS
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Tasks>>> = const { RefCell::new(None) };
}

impl Tasks {
    fn alarm(&self, number: usize) -> Arc<Alarm> {
        Arc::new(Alarm {
            number,
            queued: AtomicBool::new(false),
            ready: self.ready.clone(),
        })
    }

    fn spawn(&self, future: LocalFuture) {
        let mut spawned = self.spawned.borrow_mut();
        let place = spawned.vacant_entry();
        let alarm = self.alarm(place.key());
        place.insert(Spawned {
            future: Some(future),
            alarm: alarm.clone(),
        });
        drop(spawned);
        alarm.wake();
    }

    fn begin<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let outcome = Rc::new(Outcome {
            value: Cell::new(None),
            waiter: Cell::new(None),
        });
        let done = outcome.clone();
        self.spawn(Box::pin(async move {
            done.value.set(Some(future.await));
            if let Some(waiter) = done.waiter.take() {
                waiter.wake();
            }
        }));
        Task(outcome)
    }

    /// Runs one of those that were spawned.
    fn run(&self, number: usize) {
        let taken = self.spawned.borrow_mut().get_mut(number).and_then(|task| {
            task.alarm.queued.store(false, Ordering::Release);
            Some((task.future.take()?, task.alarm.clone()))
        });
        let Some((mut future, alarm)) = taken else {
            return;
        };
        let waker = Waker::from(alarm);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => drop(self.spawned.borrow_mut().remove(number)),
            Poll::Pending => {
                if let Some(task) = self.spawned.borrow_mut().get_mut(number) {
                    task.future = Some(future);
                }
            }
        }
    }
}

/// Runs a future to its end, and tasks that it spawns meanwhile. What is left of those then is dropped.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(Loop::new()?.block_on(future))
}

/// A run loop that is kept between two futures, with the tasks that were spawned. They run only while one is waited for.
pub struct Loop {
    tasks: Rc<Tasks>,
    reactor: Arc<Reactor>,
}

impl Loop {
    pub fn new() -> io::Result<Loop> {
        let reactor = Reactor::new()?;
        let ready = Arc::new(Ready {
            numbers: Mutex::default(),
            count: AtomicUsize::new(0),
            thread: thread::current().id(),
            waits: AtomicBool::new(false),
            named: AtomicBool::new(false),
            reactor: reactor.clone(),
        });
        let tasks = Tasks {
            spawned: RefCell::default(),
            ready,
            polls: Cell::new(0),
        };
        Ok(Loop {
            tasks: Rc::new(tasks),
            reactor,
        })
    }

    /// Runs a future beside whatever [`block_on`](Loop::block_on) is given from now on.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        self.tasks.begin(future)
    }

    /// A child of fork cannot run its parent's.
    pub fn is_of_this_process(&self) -> bool {
        self.reactor.is_of_this_process()
    }

    /// Runs a future to its end, and tasks beside it.
    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let _inside = Inside::begin(&self.tasks);
        self.reactor.own(|| run(&self.tasks, future))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.tasks.spawned.borrow_mut());
        drop(left);
        self.reactor.clone().goes_on_alone();
    }
}

/// What is spawned now is this loop's; also a panic of a task ends that.
struct Inside {
    before: Option<Rc<Tasks>>,
}

impl Inside {
    fn begin(tasks: &Rc<Tasks>) -> Inside {
        Inside {
            before: CURRENT.with_borrow_mut(|current| current.replace(tasks.clone())),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = self.before.take());
    }
}

fn run<F: Future>(tasks: &Tasks, future: F) -> F::Output {
    let mut future = pin!(future);
    let alarm = tasks.alarm(MAIN);
    let waker = Waker::from(alarm.clone());
    alarm.wake_by_ref();
    loop {
        // Tasks that always have something to do do not keep the others from what has come for them.
        if !tasks.may_poll() {
            tasks.ready.reactor.turn(false);
            tasks.polls.set(1);
        }
        match tasks.ready.pop() {
            Some(MAIN) => {
                alarm.queued.store(false, Ordering::Release);
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return output;
                }
            }
            Some(number) => tasks.run(number),
            None if wait_awake(&tasks.ready) => {}
            None => {
                wait(&tasks.ready);
                tasks.polls.set(0);
            }
        }
    }
}

/// Awake, if there is but one to wait for. Whether its task is to be run.
fn wait_awake(ready: &Ready) -> bool {
    ready.waits.store(true, Ordering::SeqCst);
    let is_named = || ready.named.load(Ordering::Acquire);
    let woken = ready.is_empty() && ready.reactor.wait_awake(&is_named);
    ready.waits.store(false, Ordering::Relaxed);
    ready.named.store(false, Ordering::Relaxed);
    woken
}

/// A task that has nothing else to do waits briefly for this stream, if the loop would do nothing else: what comes then need
/// not go through the loop. Whether something has come.
pub(crate) fn wait_in_place(stream: &TcpStream) -> bool {
    CURRENT.with_borrow(|current| {
        current.as_ref().is_some_and(|tasks| {
            let ready = &tasks.ready;
            let is_idle = ready.is_empty() && stream.is_only_one_of(&ready.reactor);
            is_idle && tasks.may_poll() && stream.wait_briefly()
        })
    })
}

fn wait(ready: &Ready) {
    ready.waits.store(true, Ordering::SeqCst);
    let idle = ready.is_empty();
    ready.reactor.turn(idle);
    ready.waits.store(false, Ordering::Relaxed);
}

/// Runs a future beside the one that calls this, in the same thread.
///
/// # Panics
/// Outside of [`block_on`].
pub fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Task<T> {
    let tasks = CURRENT.with_borrow(Option::clone);
    let tasks = tasks.expect("spawn is called within ulsock_native::run::block_on");
    tasks.begin(future)
}

struct Outcome<T> {
    value: Cell<Option<T>>,
    waiter: Cell<Option<Waker>>,
}

/// What a spawned future will give. It runs on if this is dropped.
pub struct Task<T>(Rc<Outcome<T>>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        match self.0.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.0.waiter.set(Some(task.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Waits for so long, under any executor.
pub async fn sleep(time: Duration) -> io::Result<()> {
    let Some(end) = Instant::now().checked_add(time) else {
        return std::future::pending().await;
    };
    let mut timer = Timer::new()?;
    poll_fn(|task| match timer.poll_until(task, end) {
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Ok(Poll::Pending) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}
