//! The loop of a thread: who waits outside of tasks runs it meanwhile, and tasks that were begun in this thread.

use std::cell::{Cell, RefCell};
use std::future::Future;

use native::run::Loop;

use crate::status::{Error, Result};

thread_local! {
    static LOOP: RefCell<Option<Loop>> = const { RefCell::new(None) };
    /// Away: somebody of this thread waits in it.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    static TASKS: Cell<usize> = const { Cell::new(0) };
}

/// Runs a future to its end, and the thread's tasks beside it.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    if IS_AWAY.get() {
        return Err(Error::cannot_wait());
    }
    let kept = LOOP
        .try_with(RefCell::take)
        .map_err(|_| Error::cannot_wait())?;
    let mut run = match kept {
        Some(run) => run,
        None => Loop::new()?,
    };
    IS_AWAY.set(true);
    let done = run.block_on(future);
    IS_AWAY.set(false);
    // A thread that ends meanwhile ends its tasks.
    let _ = LOOP.try_with(|place| place.replace(Some(run)));
    Ok(done)
}

/// Whether the thread's loop runs, so that what is spawned now will run in it.
pub fn is_running() -> bool {
    IS_AWAY.get()
}

pub fn has_no_tasks() -> bool {
    TASKS.get() == 0
}

/// A task of this thread that has not ended.
pub struct Counted(());

impl Counted {
    pub fn new() -> Counted {
        TASKS.set(TASKS.get() + 1);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TASKS.set(TASKS.get() - 1);
    }
}
