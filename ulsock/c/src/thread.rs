//! The loop of a thread: who waits outside of tasks runs it meanwhile, and tasks that were begun in this thread.

use std::cell::{Cell, RefCell};
use std::future::Future;

use native::run::{self, Loop};

use crate::status::{Error, Result};

thread_local! {
    static LOOP: RefCell<Option<Kept>> = const { RefCell::new(None) };
    /// Away: somebody of this thread waits in it.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    static TASKS: Cell<usize> = const { Cell::new(0) };
}

/// A loop, with its tasks. Those that a child of fork has inherited never go on there, not even to hear that they are to end: they
/// are functions of its parent's.
struct Kept(Option<Loop>);

impl Kept {
    /// This thread's, or a new one.
    fn take() -> Result<Kept> {
        let before = LOOP
            .try_with(RefCell::take)
            .map_err(|_| Error::cannot_wait())?;
        match before {
            Some(kept) if kept.is_of_this_process() => return Ok(kept),
            Some(_) => TASKS.set(0),
            None => {}
        }
        Ok(Kept(Some(Loop::new()?)))
    }

    fn is_of_this_process(&self) -> bool {
        self.0.as_ref().is_some_and(Loop::is_of_this_process)
    }

    fn put_back(self) {
        // A thread that ends meanwhile ends its tasks.
        let _ = LOOP.try_with(|place| place.replace(Some(self)));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            std::mem::forget(self.0.take());
        }
    }
}

/// Runs a future to its end, and the thread's tasks beside it.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    if IS_AWAY.get() {
        return Err(Error::cannot_wait());
    }
    let mut kept = Kept::take()?;
    let run = kept.0.as_mut().ok_or_else(Error::cannot_wait)?;
    IS_AWAY.set(true);
    let done = run.block_on(future);
    IS_AWAY.set(false);
    kept.put_back();
    Ok(done)
}

/// Runs a task from the next wait of this thread on.
pub fn spawn(task: impl Future<Output = ()> + 'static) -> Result<()> {
    if is_over() {
        return Err(Error::cannot_wait());
    }
    if IS_AWAY.get() {
        drop(run::spawn(counted(task)));
        return Ok(());
    }
    let kept = Kept::take()?;
    if let Some(run) = &kept.0 {
        drop(run.spawn(counted(task)));
    }
    kept.put_back();
    Ok(())
}

/// Whether the thread is ending, or the process in this thread: what the native library keeps for it may be gone.
pub fn is_over() -> bool {
    LOOP.try_with(|_| ()).is_err()
}

pub fn has_no_tasks() -> bool {
    TASKS.get() == 0
}

/// A task of this thread that has not ended.
struct Counted(());

/// The task, which counts from now on.
fn counted(task: impl Future<Output = ()>) -> impl Future<Output = ()> {
    TASKS.set(TASKS.get() + 1);
    let counted = Counted(());
    async move {
        let _counted = counted;
        task.await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TASKS.set(TASKS.get() - 1);
    }
}
