//! Stacks for fibers. A thread keeps some for the next; who needs more than it can have waits until one is given back.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use corosensei::stack::DefaultStack;

/// Fibers that a thread can have at a time: each stack is two of the 65,530 mappings that a process has by default.
const MOST: usize = 8192;

/// Stacks that are kept for the next fibers.
const KEPT: usize = 32;

const SMALLEST: usize = 16 << 10;

/// With as many as a thread can have, half of what a process can address.
const LARGEST: usize = 8 << 30;

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
    static WAITERS: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// A stack, as soon as there is one.
pub fn take(task: Option<&Context<'_>>) -> Poll<Stack> {
    let size = SIZE.load(Ordering::Relaxed);
    let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
    let stack = match free {
        Some(stack) if stack.size == size => Some(stack),
        _ if OUT.get() < MOST => DefaultStack::new(size)
            .ok()
            .map(|memory| Stack { memory, size }),
        _ => None,
    };
    match (stack, task) {
        (Some(stack), _) => {
            OUT.set(OUT.get() + 1);
            Poll::Ready(stack)
        }
        // Without any that could be given back nobody would be woken: the caller looks again in its next turn.
        (None, Some(task)) if OUT.get() == 0 => {
            task.waker().wake_by_ref();
            Poll::Pending
        }
        (None, Some(task)) => {
            let _ = WAITERS.try_with(|waiters| waiters.borrow_mut().push(task.waker().clone()));
            Poll::Pending
        }
        (None, None) => Poll::Pending,
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
    waiters.into_iter().for_each(Waker::wake);
}
