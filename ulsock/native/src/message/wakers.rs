//! Tasks that wait for the same thing, each once, in the order in which they came. Thousands of them may.

use std::collections::HashSet;
use std::task::Waker;

/// Up to here it is faster to look at all of them.
const FEW: usize = 8;

#[derive(Debug, Default)]
pub struct Wakers {
    all: Vec<Waker>,
    /// What tells them apart, if there are more than a few.
    known: HashSet<(*const (), usize)>,
}

impl Wakers {
    pub fn add(&mut self, waker: &Waker) {
        if !self.is_new(waker) {
            return;
        }
        self.all.push(waker.clone());
        if self.all.len() == FEW {
            self.known.extend(self.all.iter().map(key));
        }
    }

    fn is_new(&mut self, waker: &Waker) -> bool {
        match self.all.len() < FEW {
            true => !self.all.iter().any(|known| known.will_wake(waker)),
            false => self.known.insert(key(waker)),
        }
    }

    /// All of them, once none of its owner's parts is borrowed: waking may run anything.
    pub fn wake(self) {
        self.all.into_iter().for_each(Waker::wake);
    }
}

/// Wakers with the same key wake the same task.
fn key(waker: &Waker) -> (*const (), usize) {
    (waker.data(), std::ptr::from_ref(waker.vtable()).addr())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Few, so many that the way changes, and many.
    #[test]
    fn each_is_woken_once() {
        for count in [1, FEW - 1, FEW, FEW + 1, 1000] {
            let tasks: Vec<_> = (0..count).map(|_| Arc::<Counted>::default()).collect();
            let mut wakers = Wakers::default();
            for _ in 0..3 {
                for task in &tasks {
                    wakers.add(&Waker::from(task.clone()));
                }
            }
            wakers.wake();
            let woken = tasks.iter().map(|task| task.0.load(Ordering::Relaxed));
            assert!(woken.eq(std::iter::repeat_n(1, count)), "of {count} tasks");
        }
    }
}
