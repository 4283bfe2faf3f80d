//! Calls of C on stacks of their own: a handler or a task that has to wait gives its thread to others, in the middle of a
//! function of C.
//!
//! A [`Fiber`] is a future. Whoever drops it before its end cancels it: C cannot be unwound, so it is resumed until its
//! function has returned, and every wait in it ends with `Cancelled` from then on.

mod stack;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::ptr::null;
use std::task::{Context, Poll};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::edge::time;
use crate::status::{Error, Result, Status};
use crate::thread;

pub use stack::{Stack, take as take_stack, try_take as try_take_stack};

/// What this thread runs, and so what a wait has to do.
#[derive(Clone, Copy)]
enum Mode {
    /// The program's own stack: a wait runs the thread's loop.
    Plain,
    /// A wait suspends this fiber. It lives as long as it runs.
    Fiber(*const Inside),
    /// A call that the native library waits for: nothing can wait.
    Callback,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Plain) };
    /// How long a wait on the program's own stack may take.
    static LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Puts the mode back at its end.
struct Within(Mode);

impl Within {
    fn begin(mode: Mode) -> Within {
        Within(MODE.replace(mode))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Runs a function of C's in which no call may wait.
pub fn callback(call: impl FnOnce()) {
    let _within = Within::begin(Mode::Callback);
    call();
}

/// Whether a wait can be left to the native library's blocking calls: there is no task that would run meanwhile, this is none, and it
/// may take as long as it takes.
pub fn is_alone() -> bool {
    matches!(MODE.get(), Mode::Plain) && thread::has_no_tasks() && LIMIT.get().is_none()
}

/// Asked before what cannot be undone if the wait is refused.
pub fn can_wait() -> Result<()> {
    match MODE.get() {
        Mode::Callback => Err(Error::cannot_wait()),
        Mode::Plain | Mode::Fiber(_) => Ok(()),
    }
}

/// From now on every call of this task, or of this thread outside of tasks, that has waited for so many milliseconds gives up:
/// ULSOCK_NOTHING (negative: never; so it is at first). One that gives up in the middle may have sent or received a part: a stream or a
/// message that it was sending is not to be used any more. Calls that are given a time of their own keep to that. Returns what held
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_wait_at_most(milliseconds: i64) -> i64 {
    let limit = time(milliseconds);
    let before = match MODE.get() {
        // SAFETY: it is the one that runs, and so it lives.
        Mode::Fiber(inside) => unsafe { &*inside }.limit.replace(limit),
        Mode::Plain | Mode::Callback => LIMIT.replace(limit),
    };
    before.map_or(-1, |time| time.as_millis().try_into().unwrap_or(i64::MAX))
}

fn limit() -> Option<Duration> {
    match MODE.get() {
        // SAFETY: as above.
        Mode::Fiber(inside) => unsafe { &*inside }.limit.get(),
        Mode::Plain | Mode::Callback => LIMIT.get(),
    }
}

/// Waits for a future, as whoever calls this can, and as long as this may take.
pub fn wait<F: Future>(future: F) -> Result<F::Output> {
    let Some(time) = limit() else {
        return wait_for_ever(future);
    };
    let late = || Error::new(Status::Nothing, "nothing has come within the time");
    within(time, future)?.ok_or_else(late)
}

fn wait_for_ever<F: Future>(future: F) -> Result<F::Output> {
    match MODE.get() {
        Mode::Plain => thread::block_on(future),
        // SAFETY: it is the one that runs, and so it lives.
        Mode::Fiber(inside) => unsafe { &*inside }.wait(future),
        Mode::Callback => Err(Error::cannot_wait()),
    }
}

/// Waits for a future, but not longer than that.
pub fn within<F: Future>(time: Duration, future: F) -> Result<Option<F::Output>> {
    let mut over = pin!(native::run::sleep(time));
    let mut future = pin!(future);
    wait_for_ever(poll_fn(|task| match future.as_mut().poll(task) {
        Poll::Ready(done) => Poll::Ready(Ok(Some(done))),
        Poll::Pending => over.as_mut().poll(task).map_ok(|()| None),
    }))?
    .map_err(Error::from)
}

/// What a fiber knows of itself.
struct Inside {
    yielder: Cell<*const Yielder<(), ()>>,
    /// Of the poll that it runs in; null: it is cancelled.
    task: Cell<*mut Context<'static>>,
    limit: Cell<Option<Duration>>,
}

impl Inside {
    fn wait<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        loop {
            // SAFETY: a poll is under way as long as the fiber runs, and the context is its own; see `Fiber::turn`.
            let Some(task) = (unsafe { self.task.get().as_mut() }) else {
                return Err(Error::new(Status::Cancelled, "this task is to end"));
            };
            // After `exit` in a task, say.
            if thread::is_over() {
                return Err(Error::cannot_wait());
            }
            if let Poll::Ready(done) = future.as_mut().poll(task) {
                return Ok(done);
            }
            // SAFETY: set when the fiber began; it lives on the fiber's own stack, below this.
            unsafe { &*self.yielder.get() }.suspend(());
        }
    }
}

/// A function on a stack of its own.
pub struct Fiber {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    stack_size: usize,
    inside: Box<Inside>,
}

impl Fiber {
    pub fn new(stack: Stack, run: impl FnOnce() + 'static) -> Fiber {
        let inside = Box::new(Inside {
            yielder: Cell::new(null()),
            task: Cell::new(std::ptr::null_mut()),
            limit: Cell::new(None),
        });
        let own: *const Inside = &*inside;
        let (stack, stack_size) = stack.into_parts();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: the fiber holds it as long as this runs.
            unsafe { &*own }.yielder.set(yielder);
            run();
        });
        Fiber {
            coroutine: Some(coroutine),
            stack_size,
            inside,
        }
    }

    /// Runs it until it waits or ends, in this poll or, without one, cancelled. Whether it has ended.
    fn turn(&mut self, task: Option<&mut Context<'_>>) -> bool {
        let Some(coroutine) = &mut self.coroutine else {
            return true;
        };
        let task = task.map_or(std::ptr::null_mut(), |task| {
            std::ptr::from_mut(task).cast::<Context<'static>>()
        });
        self.inside.task.set(task);
        let result = {
            let _within = Within::begin(Mode::Fiber(&*self.inside));
            coroutine.resume(())
        };
        self.inside.task.set(std::ptr::null_mut());
        if let CoroutineResult::Yield(()) = result {
            return false;
        }
        if let Some(coroutine) = self.coroutine.take() {
            stack::give_back(Stack::from_parts(coroutine.into_stack(), self.stack_size));
        }
        true
    }

    fn has_begun(&self) -> bool {
        self.coroutine.as_ref().is_some_and(Coroutine::started)
    }
}

impl Future for Fiber {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        match self.turn(Some(task)) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        while self.has_begun() && !self.turn(None) {}
        // One that has not begun has nothing to end; what its function owns is dropped with it, and its stack.
        if self.coroutine.take().is_some() {
            stack::lost();
        }
    }
}

/// Lets all others run that have something to do.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|task| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
