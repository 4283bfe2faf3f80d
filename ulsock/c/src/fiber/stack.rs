//! Stacks for fibers. A thread keeps some for the next; who needs more than it can have waits until one is given back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use native::run;

use crate::status::{Error, Result, Status};

/// Fibers that a thread can have at a time: each stack is two of the 65,530 mappings that a process has by default.
const MOST: usize = 8192;

/// Stacks that are kept for the next fibers.
const KEPT: usize = 32;

const SMALLEST: usize = 16 << 10;

/// With as many as a thread can have, half of what a process can address.
const LARGEST: usize = 8 << 30;

/// Between two looks for address space, which anybody in the process may give back.
const PAUSE: Duration = Duration::from_millis(100);

static SIZE: AtomicUsize = AtomicUsize::new(256 << 10);

/// Bytes of address space for the stack of each task and handler that begins from now on: 256 KiB, if nothing is said; at
/// least 16 KiB, at most 8 GiB. Below each is a page that cannot be touched.
#[unsafe(no_mangle)]
pub extern "C" fn ulsock_stack_size(bytes: usize) {
    SIZE.store(bytes.clamp(SMALLEST, LARGEST), Ordering::Relaxed);
}

pub struct Stack {
    memory: DefaultStack,
    size: usize,
}

impl Stack {
    pub fn from_parts(memory: DefaultStack, size: usize) -> Stack {
        Stack { memory, size }
    }

    pub fn into_parts(self) -> (DefaultStack, usize) {
        (self.memory, self.size)
    }
}

thread_local! {
    static FREE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
    static OUT: Cell<usize> = const { Cell::new(0) };
    static WAITERS: RefCell<BTreeMap<u64, Waker>> = const { RefCell::new(BTreeMap::new()) };
    static NUMBERS: Cell<u64> = const { Cell::new(0) };
}

/// A stack, if there is one.
pub fn try_take() -> Result<Stack> {
    let size = SIZE.load(Ordering::Relaxed);
    let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
    let stack = match free.filter(|stack| stack.size == size) {
        Some(stack) => stack,
        None if OUT.get() >= MOST => {
            let text = format!("this thread has {MOST} tasks and handlers: let some of them end");
            return Err(Error::new(Status::TooMany, text));
        }
        None => Stack {
            memory: DefaultStack::new(size).map_err(|error| no_memory(size, &error))?,
            size,
        },
    };
    OUT.set(OUT.get() + 1);
    Ok(stack)
}

fn no_memory(size: usize, error: &io::Error) -> Error {
    let text = format!(
        "no address space for a stack of {size} bytes ({error}): ulsock_stack_size(), ulimit -v, vm.max_map_count"
    );
    Error::new(Status::NoMemory, text)
}

/// A stack, as soon as there is one: when one of this thread is given back; or, for others may have what is missing, when a look
/// now and then finds one.
pub async fn take() -> Stack {
    loop {
        if let Ok(stack) = try_take() {
            return stack;
        }
        wait(run::sleep(PAUSE)).await;
    }
}

/// Until the task is woken: by the pause, or because a stack was given back. Without a timer for the pause others have their turn
/// once: to look again at once would keep them from giving anything back.
async fn wait(pause: impl Future<Output = io::Result<()>>) {
    let mut pause = pin!(pause);
    let mut waiter = None;
    poll_fn(|task| {
        if waiter.is_some() {
            return Poll::Ready(());
        }
        waiter = Some(Waiter::new(task.waker()));
        let paused = pause.as_mut().poll(task);
        if let Poll::Ready(Err(_)) = paused {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        paused.map(drop)
    })
    .await;
}

/// One that is woken when a stack is given back, as long as this lives.
struct Waiter(u64);

impl Waiter {
    fn new(waker: &Waker) -> Waiter {
        let number = NUMBERS.get();
        NUMBERS.set(number + 1);
        let _ = WAITERS.try_with(|all| all.borrow_mut().insert(number, waker.clone()));
        Waiter(number)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = WAITERS.try_with(|all| all.borrow_mut().remove(&self.0));
    }
}

pub fn give_back(stack: Stack) {
    let _ = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        if free.len() < KEPT {
            free.push(stack);
        }
    });
    lost();
}

/// A stack is no more.
pub fn lost() {
    OUT.set(OUT.get() - 1);
    let waiters = WAITERS.try_with(RefCell::take).unwrap_or_default();
    waiters.into_values().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn without_a_timer_others_have_their_turn() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        let mut task = Context::from_waker(&waker);
        let count = || woken.0.load(Ordering::Relaxed);
        let mut failed = pin!(wait(ready(Err(io::Error::other("no timer")))));
        assert!(failed.as_mut().poll(&mut task).is_pending());
        assert_eq!(count(), 1);
        assert!(failed.as_mut().poll(&mut task).is_ready());
        let mut waiting = pin!(wait(pending()));
        assert!(waiting.as_mut().poll(&mut task).is_pending());
        assert_eq!(count(), 1);
        assert!(pin!(wait(ready(Ok(())))).poll(&mut task).is_ready());
    }
}
