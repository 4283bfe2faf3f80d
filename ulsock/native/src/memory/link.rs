//! What an import and the thread that has its connection share: what is to be sent, and how the connection has ended.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::answer::Answer;
use super::error::MemoryError;

/// Bytes that wait to be sent. Who writes more waits.
const MOST_QUEUED: usize = 1 << 20;

/// So many a write counts for itself: its place in the queue, and what an allocation takes.
const EACH: usize = 64;

pub type Done = Answer<Result<(), MemoryError>>;

pub enum Send {
    Write { offset: u64, bytes: Vec<u8> },
    Flush(u64),
    Settled,
}

#[derive(Default)]
pub struct Link {
    state: Mutex<State>,
    room: Condvar,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Send>,
    queued: usize,
    sender: Option<Waker>,
    writers: Vec<Waker>,
    flushes: HashMap<u64, Done>,
    last_flush: u64,
    has_written: bool,
    /// Nobody holds the import any more.
    is_dropped: bool,
    end: Option<MemoryError>,
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing can be written any more.
    #[inline]
    pub fn check(&self) -> Result<(), MemoryError> {
        match self.has_ended.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(self.state().end.unwrap_or(MemoryError::PeerGone)),
        }
    }

    pub fn end(&self, why: MemoryError) {
        let mut state = self.state();
        state.end.get_or_insert(why);
        self.has_ended.store(true, Ordering::Release);
        state.queue.clear();
        let flushes = std::mem::take(&mut state.flushes);
        let mut wakers = std::mem::take(&mut state.writers);
        wakers.extend(state.sender.take());
        let why = state.end.unwrap_or(why);
        drop(state);
        flushes.into_values().for_each(|done| done.give(Err(why)));
        self.room.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Nobody will write any more. What is queued is still sent.
    pub fn dropped(&self) {
        let mut state = self.state();
        state.is_dropped = true;
        let sender = state.sender.take();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    /// Nobody holds the import any more. Only the task that sends may wait here, before it looks for what is to be sent.
    pub fn poll_dropped(&self, task: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_dropped {
            return Poll::Ready(());
        }
        state.sender = Some(task.waker().clone());
        Poll::Pending
    }

    fn push(&self, mut state: MutexGuard<'_, State>, send: Send) {
        state.queue.push_back(send);
        let sender = state.sender.take();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
    }

    pub fn settled(&self) {
        self.push(self.state(), Send::Settled);
    }

    /// Queues a write, if there is room for it now.
    pub fn poll_write(
        &self,
        task: &Context<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Poll<Result<(), MemoryError>> {
        let mut state = self.state();
        // With the lock: who comes after the end would wait for ever.
        if let Some(why) = state.end {
            return Poll::Ready(Err(why));
        }
        if state.queued >= MOST_QUEUED {
            let waker = task.waker();
            if !state.writers.iter().any(|known| known.will_wake(waker)) {
                state.writers.push(waker.clone());
            }
            return Poll::Pending;
        }
        self.queue_write(state, offset, bytes);
        Poll::Ready(Ok(()))
    }

    pub fn write_blocking(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let mut state = self.state();
        while state.queued >= MOST_QUEUED && state.end.is_none() {
            let waited = self.room.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(why) = state.end {
            return Err(why);
        }
        self.queue_write(state, offset, bytes);
        Ok(())
    }

    fn queue_write(&self, mut state: MutexGuard<'_, State>, offset: u64, bytes: &[u8]) {
        state.queued += bytes.len() + EACH;
        state.has_written = true;
        let bytes = bytes.to_vec();
        self.push(state, Send::Write { offset, bytes });
    }

    /// Asks for a word that all that was queued is in place.
    pub fn flush(&self) -> Done {
        let done = Answer::new();
        let mut state = self.state();
        if let Some(why) = state.end {
            drop(state);
            done.give(Err(why));
            return done;
        }
        state.last_flush += 1;
        let number = state.last_flush;
        state.flushes.insert(number, done.clone());
        self.push(state, Send::Flush(number));
        done
    }

    pub fn has_written(&self) -> bool {
        self.state().has_written
    }

    pub fn flushed(&self, number: u64) {
        let done = self.state().flushes.remove(&number);
        if let Some(done) = done {
            done.give(Ok(()));
        }
    }

    /// What is to be sent next; `None` at the end.
    pub async fn next(&self) -> Option<Send> {
        poll_fn(|task| {
            let mut state = self.state();
            if state.end.is_some() {
                return Poll::Ready(None);
            }
            match state.queue.pop_front() {
                Some(send) => Poll::Ready(Some(send)),
                None if state.is_dropped => Poll::Ready(None),
                None => {
                    state.sender = Some(task.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// A write is on its way.
    pub fn sent(&self, len: usize) {
        let mut state = self.state();
        state.queued -= (len + EACH).min(state.queued);
        let wakers = match state.queued < MOST_QUEUED {
            true => std::mem::take(&mut state.writers),
            false => Vec::new(),
        };
        drop(state);
        self.room.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes until there is no more room, and tells how often.
    fn fill(link: &Link, bytes: &[u8]) -> usize {
        let task = Context::from_waker(Waker::noop());
        (0..)
            .find(|_| link.poll_write(&task, 0, bytes).is_pending())
            .expect("full")
    }

    /// Whatever waits to be sent takes memory.
    #[test]
    fn writes_of_nothing_are_bounded() {
        assert!(fill(&Link::default(), &[]) <= 1 << 16);
        assert!(fill(&Link::default(), &[7]) <= 1 << 16);
        assert_eq!(fill(&Link::default(), &[7; MOST_QUEUED]), 1);
    }

    #[test]
    fn what_was_sent_makes_room() {
        let link = Link::default();
        let count = fill(&link, &[7; 100]);
        for _ in 0..count {
            link.sent(100);
        }
        assert_eq!(fill(&link, &[7; 100]), count);
    }

    /// Who finds no room just when the connection ends hears of it.
    #[test]
    fn an_end_is_not_missed() {
        for _ in 0..20 {
            let link = Arc::new(Link::default());
            fill(&link, &[7; MOST_QUEUED]);
            let state = link.state();
            let writer = thread::spawn({
                let link = link.clone();
                move || {
                    let woken: Arc<Woken> = Arc::default();
                    let waker = Waker::from(woken.clone());
                    let polled = link.poll_write(&Context::from_waker(&waker), 0, &[7]);
                    (polled, woken)
                }
            });
            // It has begun, and comes to the lock.
            thread::sleep(Duration::from_millis(2));
            drop(state);
            link.end(MemoryError::Revoked);
            let (polled, woken) = writer.join().expect("a writer");
            let is_woken = woken.0.load(Ordering::Relaxed) > 0;
            assert!(polled == Poll::Ready(Err(MemoryError::Revoked)) || is_woken);
        }
    }
}
