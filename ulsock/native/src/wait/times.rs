//! Times at which tasks want to be woken. The reactor waits no longer than until the first of them: none takes a descriptor, or a
//! system call, and a process that has no descriptors left can still wait for a while.

use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;

/// Later than any time that is set.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub struct Times {
    state: Mutex<State>,
    /// Of the first, in nanoseconds from the beginning, for those who need not know more.
    first: AtomicU64,
    beginning: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// One for each timer, with what it waits for now.
    timers: Slab<Option<(Instant, Waker)>>,
    due: BTreeSet<(Instant, usize)>,
}

/// With the last waker of a task an executor may drop the task, and so a timer, which comes back here for the lock.
fn drop_unlocked<T>(state: MutexGuard<'_, State>, wakers: T) {
    drop(state);
    drop(wakers);
}

impl Times {
    pub fn new() -> Times {
        Times {
            state: Mutex::default(),
            first: AtomicU64::new(NEVER),
            beginning: Instant::now(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since_beginning(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.beginning).as_nanos();
        u64::try_from(since).unwrap_or(NEVER).min(NEVER - 1)
    }

    /// The first has changed, perhaps. Whether it is earlier now.
    fn note_first(&self, state: &State) -> bool {
        let first = state.due.first();
        let first = first.map_or(NEVER, |(at, _)| self.since_beginning(*at));
        first < self.first.swap(first, Ordering::AcqRel)
    }

    /// A place for a new timer.
    pub fn add(&self) -> usize {
        self.state().timers.insert(None)
    }

    pub fn remove(&self, key: usize) {
        let mut state = self.state();
        let before = state.timers.remove(key);
        if let Some((at, _)) = &before {
            state.due.remove(&(*at, key));
            self.note_first(&state);
        }
        drop_unlocked(state, before);
    }

    pub fn is_empty(&self) -> bool {
        self.state().timers.is_empty()
    }

    /// Wakes the task then, and not at the time before. Whether whoever waits has to wait for less than he knows.
    pub fn set(&self, key: usize, at: Instant, waker: &Waker) -> bool {
        let mut state = self.state();
        if let Some((known, before)) = &mut state.timers[key]
            && *known == at
        {
            if !before.will_wake(waker) {
                let before = mem::replace(before, waker.clone());
                drop_unlocked(state, before);
            }
            return false;
        }
        let before = state.timers[key].replace((at, waker.clone()));
        if let Some((before, _)) = &before {
            state.due.remove(&(*before, key));
        }
        state.due.insert((at, key));
        let is_earlier = self.note_first(&state);
        drop_unlocked(state, before);
        is_earlier
    }

    /// What is left until the first.
    #[inline]
    pub fn left(&self) -> Option<Duration> {
        match self.first.load(Ordering::Acquire) {
            NEVER => None,
            first => {
                let at = Duration::from_nanos(first);
                Some(at.saturating_sub(self.beginning.elapsed()))
            }
        }
    }

    /// Wakes those whose time has come.
    #[inline]
    pub fn ring(&self) {
        if self.left().is_some_and(|left| left.is_zero()) {
            self.ring_due(Instant::now());
        }
    }

    fn ring_due(&self, now: Instant) {
        let mut wakers = Vec::new();
        let mut state = self.state();
        while let Some((at, key)) = state.due.first().copied()
            && at <= now
        {
            state.due.remove(&(at, key));
            wakers.extend(state.timers[key].take().map(|(_, waker)| waker));
        }
        self.note_first(&state);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn the_first_comes_first() {
        let (times, woken) = (Times::new(), Arc::<Woken>::default());
        let waker = Waker::from(woken.clone());
        let count = || woken.0.load(Ordering::Relaxed);
        assert!(times.left().is_none() && times.is_empty());
        let (one, other) = (times.add(), times.add());
        let now = Instant::now();
        assert!(times.set(one, now + LONG, &waker));
        assert!(!times.set(one, now + LONG, &waker));
        assert!(!times.set(other, now + 2 * LONG, &waker));
        assert!(
            times
                .left()
                .is_some_and(|left| left <= LONG && left > LONG / 2)
        );
        assert!(times.set(other, now, &waker));
        assert_eq!(times.left(), Some(Duration::ZERO));
        times.ring();
        assert_eq!(count(), 1);
        // It rings once, and not for a time that was set before.
        times.ring();
        assert!(times.left().is_some_and(|left| left > LONG / 2));
        assert!(times.set(one, now + SHORT, &waker));
        std::thread::sleep(2 * SHORT);
        times.ring();
        assert_eq!(count(), 2);
        assert!(times.left().is_none() && !times.is_empty());
        times.remove(one);
        assert!(times.set(other, now, &waker));
        times.remove(other);
        times.ring();
        assert_eq!((count(), times.left()), (2, None));
        assert!(times.is_empty());
    }

    /// As of a task that only its waker still holds, and that has a timer.
    struct Owner {
        times: Arc<Times>,
        key: usize,
    }

    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            self.times.remove(self.key);
        }
    }

    #[test]
    fn a_waker_that_goes_may_take_timers_with_it() {
        let times = Arc::new(Times::new());
        let owner = || {
            let (times, key) = (times.clone(), times.add());
            Waker::from(Arc::new(Owner { times, key }))
        };
        let (key, now) = (times.add(), Instant::now());
        times.set(key, now + LONG, &owner());
        times.set(key, now + LONG, &owner());
        times.set(key, now + 2 * LONG, &owner());
        times.remove(key);
        assert!(times.is_empty());
        assert_eq!(times.left(), None);
    }
}
