//! Several threads inside recv at once. Nobody knows who gets which bytes, but the pattern tells where
//! they belong: in the end the fragments must cover the stream without gap or overlap, and those of
//! one thread must be in order.

use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::thread;

use tests::echo::{self, Caller};
use tests::pattern::{self, LOCATABLE};
use tests::progress::{self, Gauge};
use tests::rng::Rng;
use tests::sock;

use crate::Link;
use crate::piece::{MAX_PIECE, Sender};

const THREADS: u64 = 3;
const WARM_UP: usize = 100;
const MESSAGE: usize = 32;

/// What the readers of one link have got so far.
#[derive(Default)]
struct Fragments {
    /// (start, end) of fragments whose place is known.
    placed: Vec<(u64, u64)>,
    /// Fragments too short to tell.
    short: Vec<Vec<u8>>,
}

/// Runs every link with one sender and several readers.
pub fn run(links: &[Link]) {
    thread::scope(|scope| {
        for link in links {
            warm_up(link);
            scope.spawn(move || send(link));
            scope.spawn(move || receive(link));
        }
    });
}

/// Round trips by one thread, so that the connection can leave the kernel: from here on some reader
/// sleeps at any time.
fn warm_up(link: &Link) {
    let mut caller = Caller::new(&link.stream, u8::MAX);
    for _ in 0..WARM_UP {
        if link.listens {
            echo::serve_one(&link.stream, MESSAGE).expect("echo");
        } else {
            caller.round_trip(MESSAGE).expect("round trip");
        }
    }
}

fn send(link: &Link) {
    let mut sender = Sender::new(link);
    while !sender.is_done() {
        sender.step_blocking().expect("send");
    }
    link.stream.shutdown(Shutdown::Write).expect("shutdown");
}

fn receive(link: &Link) {
    let fragments = Mutex::new(Fragments::default());
    let gauge = progress::gauge(format!("received, link {}", link.number), link.bytes);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fragments, gauge) = (&fragments, Arc::clone(&gauge));
            scope.spawn(move || read(link, thread, fragments, &gauge));
        }
    });
    let fragments = fragments.into_inner().expect("lock");
    fragments.cover(link.incoming(), link.bytes);
}

fn read(link: &Link, thread: u64, fragments: &Mutex<Fragments>, gauge: &Gauge) {
    let mut rng = Rng::new(link.seed, link.stream_seed(32 + thread));
    let mut buffer = vec![0; MAX_PIECE];
    let mut position = 0;
    loop {
        let length = rng.size(MAX_PIECE).max(LOCATABLE);
        let received = sock::recv(link.fd(), &mut buffer[..length], 0).expect("recv");
        if received == 0 {
            return;
        }
        gauge.add(received as u64);
        let fragment = &buffer[..received];
        if received < LOCATABLE {
            let mut fragments = fragments.lock().expect("lock");
            fragments.short.push(fragment.to_vec());
            continue;
        }
        let start = place(link.incoming(), fragment);
        assert!(
            start >= position,
            "thread {thread}: {start} after {position}"
        );
        position = start + received as u64;
        fragments
            .lock()
            .expect("lock")
            .placed
            .push((start, position));
    }
}

/// Where a fragment belongs; all of it must be in its place.
fn place(direction: u8, fragment: &[u8]) -> u64 {
    let (found, start) = pattern::locate(fragment).expect("a fragment of no pattern");
    assert_eq!(found, direction, "a fragment of another stream");
    pattern::check(direction, start, fragment).unwrap_or_else(|wrong| panic!("{wrong}"));
    start
}

impl Fragments {
    /// Demands that the fragments cover `0..total`, the short ones filling the gaps.
    fn cover(mut self, direction: u8, total: u64) {
        self.placed.sort_unstable();
        self.placed.push((total, total));
        self.short
            .sort_by_key(|fragment| std::cmp::Reverse(fragment.len()));
        let mut position = 0;
        for (start, end) in std::mem::take(&mut self.placed) {
            assert!(
                start >= position,
                "{} bytes twice before {position}",
                position - start
            );
            self.fill(direction, position, start);
            position = end;
        }
        assert!(
            self.short.is_empty(),
            "{} fragments too many",
            self.short.len()
        );
    }

    /// Fills `from..to` with short fragments, the longest that fits first.
    fn fill(&mut self, direction: u8, mut from: u64, to: u64) {
        while from < to {
            let fits = |fragment: &Vec<u8>| {
                from + fragment.len() as u64 <= to
                    && pattern::check(direction, from, fragment).is_ok()
            };
            let found = self.short.iter().position(fits);
            let found = found.unwrap_or_else(|| panic!("{} bytes lost at {from}", to - from));
            from += self.short.remove(found).len() as u64;
        }
    }
}
