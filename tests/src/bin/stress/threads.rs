//! Blocking modes: threads in send and threads in recv. With more than one thread on a half they take
//! turns under a lock, so that the place of every byte in the stream is known.

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::Link;
use crate::piece::{Receiver, Sender};

/// Runs every link with `crew` threads per direction.
pub fn run(links: &[Link], crew: usize) {
    thread::scope(|scope| {
        for link in links {
            scope.spawn(move || send(link, crew));
            scope.spawn(move || receive(link, crew));
        }
    });
}

fn send(link: &Link, crew: usize) {
    let sender = Mutex::new(Sender::new(link));
    together(crew, || {
        let mut sender = sender.lock().expect("lock");
        if !sender.is_done() {
            sender.step_blocking().expect("send");
        }
        !sender.is_done()
    });
    while link.late && !link.complete.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    link.stream.shutdown(Shutdown::Write).expect("shutdown");
}

fn receive(link: &Link, crew: usize) {
    let receiver = Mutex::new(Receiver::new(link, true));
    together(crew, || {
        let mut receiver = receiver.lock().expect("lock");
        if !receiver.is_done() {
            receiver.step_blocking().expect("recv");
            if receiver.has_all() {
                link.complete.store(true, Ordering::Relaxed);
            }
        }
        !receiver.is_done()
    });
}

/// `crew` threads call `step` until it says that there is nothing more to do.
fn together(crew: usize, step: impl Fn() -> bool + Sync) {
    thread::scope(|scope| {
        for _ in 0..crew {
            scope.spawn(|| while step() {});
        }
    });
}
