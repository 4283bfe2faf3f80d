//! Who must not notice: a client of the victim that checks every byte and times every round trip.
//!
//! Commands on stdin: `go` starts, `rest` stops and prints `rounds N in MS ms, longest US us, machine late US us`; EOF
//! ends it. How late the machine is, a thread finds out that only sleeps.

use std::io::{self, BufRead};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::echo::Caller;
use crate::rng::Rng;

/// The largest message.
const LARGEST: usize = 8192;

static GOES: AtomicBool = AtomicBool::new(false);
/// How much longer than it should the longest sleep has taken, in us.
static LATE: AtomicU64 = AtomicU64::new(0);

/// The program: `honest port=P conns=N`.
pub fn main(args: &Args) {
    let streams: Vec<TcpStream> = (0..args.get::<usize>("conns"))
        .map(|_| TcpStream::connect(args.address()).expect("connect"))
        .collect();
    let (tell, hear) = mpsc::channel();
    thread::spawn(sleep_well);
    let work = move || talk(&streams, &hear);
    let worker = thread::spawn(work);
    println!("connected");
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        GOES.store(line == "go", Ordering::Release);
        if line == "go" {
            tell.send(()).expect("the worker lives");
        }
    }
    drop(tell);
    worker.join().expect("an honest connection has failed");
}

fn sleep_well() {
    let short = Duration::from_millis(5);
    loop {
        let before = Instant::now();
        thread::sleep(short);
        let late = before.elapsed().saturating_sub(short);
        LATE.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
    }
}

fn talk(streams: &[TcpStream], hear: &Receiver<()>) {
    let mut rng = Rng::new(1, 0);
    let mut callers: Vec<Caller<'_>> = streams
        .iter()
        .zip(0..)
        .map(|(stream, direction)| Caller::new(stream, direction))
        .collect();
    while hear.recv().is_ok() {
        LATE.store(0, Ordering::Relaxed);
        let (start, mut rounds, mut longest) = (Instant::now(), 0, Duration::ZERO);
        // Once at least: it may be told to rest before it has begun.
        loop {
            for caller in &mut callers {
                let before = Instant::now();
                caller
                    .round_trip(rng.size(LARGEST))
                    .expect("an honest connection works");
                longest = longest.max(before.elapsed());
                rounds += 1;
            }
            if !GOES.load(Ordering::Acquire) {
                break;
            }
        }
        let took = start.elapsed().as_millis();
        println!(
            "rounds {rounds} in {took} ms, longest {} us, machine late {} us",
            longest.as_micros(),
            LATE.load(Ordering::Relaxed)
        );
    }
}
