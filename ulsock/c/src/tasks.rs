//! Tasks: functions of C's beside each other in one thread.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::future::{Future, poll_fn};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use native::run;

use crate::edge::{nulled, object};
use crate::fiber::{Fiber, try_take_stack, wait, yield_now};
use crate::held::{Handle, Local, free};
use crate::status::{Error, Result, Status, told};
use crate::thread;

/// A function that runs beside others in the thread that has begun it, on a stack of its own.
pub struct Task(Local<Rc<State>>);

impl Handle for Task {
    type Object = Rc<State>;

    fn local(&self) -> &Local<Rc<State>> {
        &self.0
    }
}

/// What a task and those who hold it share.
#[derive(Default)]
pub struct State {
    cancelled: Cell<bool>,
    /// It does not wait.
    runs: Cell<bool>,
    ended: Cell<bool>,
    own: RefCell<Option<Waker>>,
    joiners: RefCell<Vec<Waker>>,
}

struct Running {
    fiber: Option<Fiber>,
    state: Rc<State>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        let Running { fiber, state } = &mut *self;
        state.own.replace(Some(task.waker().clone()));
        let Some(running) = fiber.as_mut().filter(|_| !state.cancelled.get()) else {
            return Poll::Ready(());
        };
        state.runs.set(true);
        let polled = Pin::new(running).poll(task);
        state.runs.set(false);
        polled
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.fiber = None;
        self.state.ended.set(true);
        self.state.joiners.take().into_iter().for_each(Waker::wake);
    }
}

/// Begins a task: `function(argument)` runs beside this in this thread, whenever somebody of the thread waits in a call of this
/// library. It may wait, too. `task` is null if nobody will ask for it. A thread that ends cancels its tasks then, and so does the
/// first thread when it returns from main() or calls exit() outside of tasks.
///
/// ULSOCK_NO_MEMORY: there is no address space for its stack. ULSOCK_TOO_MANY: the thread has 8,192 tasks and handlers already.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_task_begin(
    function: Option<extern "C" fn(argument: *mut c_void)>,
    argument: *mut c_void,
    task: Option<&mut MaybeUninit<*mut Task>>,
) -> Status {
    told(|| {
        let task = task.map(nulled);
        let function = function.ok_or_else(|| Error::bad_argument("no function"))?;
        let stack = try_take_stack()?;
        let state = Rc::new(State::default());
        let running = Running {
            fiber: Some(Fiber::new(stack, move || function(argument))),
            state: state.clone(),
        };
        thread::spawn(running)?;
        if let Some(task) = task {
            *task = Box::into_raw(Box::new(Task(Local::new(state))));
        }
        Ok(())
    })
}

/// Waits until the task has ended. A task cannot wait for its own end: ULSOCK_BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_task_join(task: Option<&Task>) -> Status {
    told(|| {
        let state = state(task)?;
        if state.runs.get() {
            return Err(Error::bad_argument("a task cannot wait for its own end"));
        }
        wait(poll_fn(|waiter| match state.ended.get() {
            true => Poll::Ready(()),
            false => {
                state.joiners.borrow_mut().push(waiter.waker().clone());
                Poll::Pending
            }
        }))
    })
}

/// Tells the task to end: the call in which it waits, and all further ones that would have to wait, return ULSOCK_CANCELLED.
/// It has ended when ulsock_task_join() returns. The function of one that has not begun is never called.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_task_cancel(task: Option<&Task>) -> Status {
    told(|| {
        let state = state(task)?;
        state.cancelled.set(true);
        let waker = state.own.borrow().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    })
}

/// The task goes on.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_task_free(task: Option<Box<Task>>) {
    free(task);
}

fn state(task: Option<&Task>) -> Result<Rc<State>> {
    object(task)?.0.shared(|state| Ok(state.clone()))
}

/// Lets all tasks of this thread run that have something to do.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_yield() -> Status {
    told(|| wait(yield_now()))
}

/// Waits for so long; other tasks of this thread run meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_sleep(milliseconds: u32) -> Status {
    told(|| {
        let time = Duration::from_millis(milliseconds.into());
        Ok(wait(run::sleep(time))??)
    })
}
