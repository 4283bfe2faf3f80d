//! A program that is written for ulsock: `native ROLE how=HOW port=P [host=A] [conns=N] [rounds=R] [max=BYTES]`.
//!
//! `serve` echoes N connections, each to its end. `call` makes round trips on N connections, `flood` sends R bytes on each
//! while they come back; both check every byte, end their own direction, and wait for the other's end. `wait` makes one
//! round trip, then waits, and prints how the connection ends. `reset` makes one and resets the connection. `fork` goes on
//! with the connection in a child, then in the parent. HOW is `blocking` or `tasks` (all in one thread), each with
//! `_in_place`. `alone` is both ends: it sends
//! messages of 64 bytes, a hundred at a time, and then receives them, R hundreds, so that nobody waits. With `told=1`, `call` goes on after its rounds until stdin ends.

mod blocking;
mod fork;
mod tasks;

use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tests::args::Args;

const PIECE: usize = 64 << 10;

/// What the program is asked to do.
#[derive(Clone)]
struct Order {
    role: String,
    address: SocketAddr,
    in_place: bool,
    conns: usize,
    rounds: usize,
    max: usize,
    /// Its rounds are enough.
    told: Arc<AtomicBool>,
}

impl Order {
    fn wants_round(&self, done: usize) -> bool {
        done < self.rounds || !self.told.load(Ordering::Relaxed)
    }
}

fn main() {
    let args = Args::from_env();
    let how: String = args.get_or("how", "blocking".to_owned());
    let mut addresses = args.address().to_socket_addrs().expect("an address");
    let order = Order {
        role: args.role().to_owned(),
        address: addresses.next().expect("an address"),
        in_place: how.ends_with("_in_place"),
        conns: args.get_or("conns", 1),
        rounds: args.get_or("rounds", 100),
        max: args.get_or("max", PIECE),
        told: Arc::new(AtomicBool::new(args.get_or("told", 0) == 0)),
    };
    if !order.told.load(Ordering::Relaxed) {
        let told = order.told.clone();
        thread::spawn(move || {
            io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
            told.store(true, Ordering::Relaxed);
        });
    }
    match how.strip_suffix("_in_place").unwrap_or(&how) {
        "blocking" if order.role == "fork" => fork::run(&order),
        "blocking" => blocking::run(&order),
        "tasks" => tasks::run(&order),
        other => panic!("how={other}"),
    }
}

/// How a connection ended, for the test to read.
fn print_end(end: io::Result<usize>) {
    match end {
        Ok(n) => println!("end after {n}"),
        Err(error) => println!("{:?}", error.kind()),
    }
}
