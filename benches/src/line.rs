//! An experiment beside the ring: small messages in cache lines of their own, each of which carries its number and its bytes
//! together, so that one line moves for a message, where a ring moves its cursor's and those of the bytes.
//!
//! What it shows is a bound: these lines have neither marks nor levels, and a message that does not fill them wastes the rest.
#![forbid(unsafe_code)]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Words of a line that carry bytes; the last one is the number.
const WORDS: usize = 7;
/// Lines of one direction: 16 KiB, as a ring begins.
const LINES: u64 = 256;
/// The sender is told that lines are free when so many are.
const FREED: u64 = 64;

#[derive(Default)]
#[repr(align(64))]
struct Line {
    words: [AtomicU64; WORDS],
    /// One more than those before it, from 1 on.
    number: AtomicU64,
}

#[derive(Default)]
#[repr(align(64))]
struct Consumer {
    freed: AtomicU64,
    /// Somebody would have to be woken.
    sleeps: AtomicBool,
}

struct Direction {
    lines: Vec<Line>,
    consumer: Consumer,
}

/// One end of two directions.
pub struct LineEnd {
    outgoing: Arc<Direction>,
    incoming: Arc<Direction>,
    sent: u64,
    taken: u64,
    /// As far as is known.
    freed: u64,
    /// Each message looks whether its reader sleeps, behind a fence: what a socket has to do.
    fenced: bool,
}

pub fn pair(fenced: bool) -> (LineEnd, LineEnd) {
    let direction = || {
        Arc::new(Direction {
            lines: (0..LINES).map(|_| Line::default()).collect(),
            consumer: Consumer::default(),
        })
    };
    let (there, back) = (direction(), direction());
    let end = |outgoing: &Arc<Direction>, incoming: &Arc<Direction>| LineEnd {
        outgoing: outgoing.clone(),
        incoming: incoming.clone(),
        sent: 0,
        taken: 0,
        freed: 0,
        fenced,
    };
    (end(&there, &back), end(&back, &there))
}

impl LineEnd {
    /// `true`: the reader would have to be woken.
    pub fn send(&mut self, message: &[u64]) -> bool {
        for part in message.chunks(WORDS) {
            while self.sent - self.freed >= LINES {
                self.freed = self.outgoing.consumer.freed.load(Ordering::Acquire);
                spin_loop();
            }
            let line = &self.outgoing.lines[(self.sent % LINES) as usize];
            for (word, value) in line.words.iter().zip(part) {
                word.store(*value, Ordering::Relaxed);
            }
            self.sent += 1;
            line.number.store(self.sent, Ordering::Release);
        }
        if self.fenced {
            fence(Ordering::SeqCst);
            return self.outgoing.consumer.sleeps.load(Ordering::Relaxed);
        }
        false
    }

    pub fn receive(&mut self, message: &mut [u64]) {
        for part in message.chunks_mut(WORDS) {
            let line = &self.incoming.lines[(self.taken % LINES) as usize];
            while line.number.load(Ordering::Acquire) != self.taken + 1 {
                spin_loop();
            }
            for (word, value) in line.words.iter().zip(part) {
                *value = word.load(Ordering::Relaxed);
            }
            self.taken += 1;
            if self.taken.is_multiple_of(FREED) {
                let freed = &self.incoming.consumer.freed;
                freed.store(self.taken, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_arrive_in_order() {
        let (mut from, mut to) = pair(true);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 1..2000 {
                    let message: Vec<u64> = (0..n % 20).map(|at| n << 32 | at).collect();
                    assert!(!from.send(&message));
                }
            });
            for n in 1..2000 {
                let mut message = vec![0; (n % 20) as usize];
                to.receive(&mut message);
                assert!(
                    message
                        .iter()
                        .zip(0..)
                        .all(|(word, at)| *word == (n << 32 | at))
                );
            }
        });
    }
}
