//! The model of the kernel: one direction of a TCP socket, and the bells that sleepers listen to.
//!
//! A sent byte is in the receiver's queue at once, which is the hardest case for the protocol: the
//! sender may always believe that nothing is held back.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// Threads that can sleep in one model.
pub const BELLS: usize = 4;

struct Inside {
    queue: VecDeque<u8>,
    taken: u64,
    room: usize,
    eof: bool,
    rung: [bool; BELLS],
}

pub struct Kernel {
    inside: Mutex<Inside>,
    changed: Condvar,
    /// The receiver is gone. Beside the lock, so that asking for it orders nothing between the
    /// sides that the protocol itself must order.
    reset: AtomicBool,
}

/// What one system call tells about the receive queue.
#[derive(Clone, Copy)]
pub struct Queued {
    pub bytes: u64,
    pub eof: bool,
}

impl Kernel {
    pub fn new(room: usize, taken: u64) -> Kernel {
        Kernel {
            inside: Mutex::new(Inside {
                queue: VecDeque::new(),
                taken,
                room,
                eof: false,
                rung: [false; BELLS],
            }),
            changed: Condvar::new(),
            reset: AtomicBool::new(false),
        }
    }

    fn change<T>(&self, f: impl FnOnce(&mut Inside) -> T) -> T {
        let result = f(&mut self.inside.lock().unwrap());
        self.changed.notify_all();
        result
    }

    /// Takes as many bytes as there is room for.
    pub fn send(&self, bytes: &[u8]) -> u64 {
        self.change(|k| {
            if self.is_reset() {
                return bytes.len() as u64;
            }
            let n = bytes.len().min(k.room - k.queue.len());
            k.queue.extend(&bytes[..n]);
            n as u64
        })
    }

    pub fn recv(&self, most: u64) -> Vec<u8> {
        self.change(|k| {
            let n = most.min(k.queue.len() as u64);
            k.taken += n;
            k.queue.drain(..n as usize).collect()
        })
    }

    pub fn queued(&self) -> Queued {
        let k = self.inside.lock().unwrap();
        Queued {
            bytes: k.queue.len() as u64,
            eof: k.eof,
        }
    }

    /// The receiver's count: exact only while nobody is inside a call.
    pub fn taken(&self) -> u64 {
        self.inside.lock().unwrap().taken
    }

    /// The sender's count: exact only while nobody is inside a call.
    pub fn sent(&self) -> u64 {
        let k = self.inside.lock().unwrap();
        k.taken + k.queue.len() as u64
    }

    /// The sending end has closed or died.
    pub fn close(&self) {
        self.change(|k| k.eof = true);
    }

    /// The receiving end has closed or died.
    pub fn reset(&self) {
        self.change(|_| self.reset.store(true, Ordering::Relaxed));
    }

    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    pub fn ring(&self, bell: usize) {
        self.change(|k| k.rung[bell] = true);
    }

    fn sleep(&self, bell: Option<usize>, event: impl Fn(&Inside) -> bool) {
        let mut k = self.inside.lock().unwrap();
        let woken = |k: &Inside| bell.is_some_and(|bell| k.rung[bell]) || event(k);
        while !woken(&k) {
            k = self.changed.wait(k).unwrap();
        }
        if let Some(bell) = bell {
            k.rung[bell] = false;
        }
    }

    pub fn sleep_until_readable(&self, bell: Option<usize>) {
        self.sleep(bell, |k| !k.queue.is_empty() || k.eof);
    }

    pub fn sleep_until_writable(&self, bell: usize) {
        self.sleep(Some(bell), |k| k.queue.len() < k.room || self.is_reset());
    }

    /// A sender that waits for ring space hears of the receiver's end only.
    pub fn sleep_until_reset(&self, bell: usize) {
        self.sleep(Some(bell), |_| self.is_reset());
    }
}
