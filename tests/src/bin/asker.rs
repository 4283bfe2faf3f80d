//! Requests of native programs: `requests ROLE port=P [host=A] [conns=N] [at_once=N] [rounds=N] [len=N]`.
//!
//! `serve` answers until it is killed, or `quit` says so: an echo, a service that never answers, and one that tells how many calls of that are
//! being handled. `call` makes so many connections, and on all of them `rounds` calls, of which `at_once` are under way at a
//! time; it checks each reply, and prints how many there were in a second. `wait` makes calls that are never answered, and
//! prints how they end; `count` waits until none of these is left at the server.

use std::cell::Cell;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use native::message::Endpoint;
use native::request::{Caller, RequestError, Requests};
use native::run::{block_on, spawn};
use tests::args::Args;
use tests::sock;

const ECHO: u16 = 1;
const NEVER: u16 = 2;
const COUNT: u16 = 3;
const QUIT: u16 = 4;

fn main() {
    let args = Args::from_env();
    sock::allow_fds(40_000).expect("descriptors");
    block_on(async {
        match args.role() {
            "serve" => serve(&args).await,
            "call" => call(&args).await,
            "wait" => wait(&args).await,
            "count" => count(&args).await,
            "quit" => quit(&args).await,
            other => panic!("role {other}"),
        }
    })
    .expect("a loop");
}

fn address(args: &Args) -> SocketAddr {
    let host = args.get_or("host", IpAddr::from(Ipv4Addr::LOCALHOST));
    SocketAddr::new(host, args.get("port"))
}

/// A call that is being handled.
struct Handled(Rc<Cell<u32>>);

impl Handled {
    fn new(count: &Rc<Cell<u32>>) -> Handled {
        count.set(count.get() + 1);
        Handled(count.clone())
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn serve(args: &Args) {
    let endpoint = Rc::new(Endpoint::bind(address(args)).expect("an endpoint"));
    let requests = Requests::new(&endpoint).expect("requests");
    requests.answer(ECHO, |bytes: Vec<u8>| async move { Ok(bytes) });
    let handled = Rc::new(Cell::new(0));
    let count = handled.clone();
    requests.answer(NEVER, move |_: Vec<u8>| {
        let handled = Handled::new(&count);
        async move {
            pending::<()>().await;
            drop(handled);
            Ok(Vec::new())
        }
    });
    requests.answer(COUNT, move |_: Vec<u8>| {
        let count = handled.get().to_le_bytes().to_vec();
        async move { Ok(count) }
    });
    let over = Rc::new(Cell::new(false));
    let told = over.clone();
    requests.answer(QUIT, move |bytes: Vec<u8>| {
        told.set(true);
        async move { Ok(bytes) }
    });
    while !over.get() {
        endpoint.extract(usize::MAX).await.expect("it serves");
    }
}

/// The reply may be lost with the server.
async fn quit(args: &Args) {
    let caller = connect(args).await.pop().expect("a connection");
    let _ = caller.call(QUIT, b"").await;
}

/// An endpoint that is served, and so many connections of it.
async fn connect(args: &Args) -> Vec<Caller> {
    let endpoint = Rc::new(Endpoint::new());
    let requests = Requests::new(&endpoint).expect("requests");
    drop(spawn(async move { endpoint.serve().await }));
    let mut callers = Vec::new();
    for _ in 0..args.get_or("conns", 1) {
        let caller = requests.connect(address(args)).await;
        callers.push(caller.expect("a connection"));
    }
    callers
}

fn pattern(round: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (round * 31 + at * 7) as u8).collect()
}

async fn call(args: &Args) {
    let callers = Rc::new(connect(args).await);
    let (rounds, len) = (args.get_or("rounds", 1000_usize), args.get_or("len", 64));
    // Each connection, once: they are upgraded, if ever, before the time is taken.
    run_calls(&callers, callers.len() * 20, len, args).await;
    let begin = Instant::now();
    run_calls(&callers, rounds, len, args).await;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{:.0} requests/s", rounds as f64 / seconds);
}

/// Calls go to one connection after the other.
async fn run_calls(callers: &Rc<Vec<Caller>>, rounds: usize, len: usize, args: &Args) {
    let next = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..args.get_or("at_once", 1))
        .map(|_| {
            let (callers, next) = (callers.clone(), next.clone());
            spawn(async move {
                loop {
                    let round = next.replace(next.get() + 1);
                    if round >= rounds {
                        return;
                    }
                    let bytes = pattern(round, len);
                    let caller = &callers[round % callers.len()];
                    let reply = caller.call(ECHO, &bytes).await.expect("a reply");
                    assert!(reply == bytes, "the reply of round {round}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}

async fn wait(args: &Args) {
    let callers = connect(args).await;
    let calls: Vec<_> = (0..args.get_or("at_once", 1_usize))
        .map(|at| {
            let caller = callers[at % callers.len()].clone();
            spawn(async move { caller.call(NEVER, b"").await })
        })
        .collect();
    // Behind them.
    for caller in &callers {
        caller.call(ECHO, b"").await.expect("a reply");
    }
    println!("waits");
    let mut gone = 0;
    for call in calls {
        match call.await {
            Err(RequestError::PeerGone) => gone += 1,
            other => println!("{other:?}"),
        }
    }
    println!("gone {gone}");
}

async fn count(args: &Args) {
    let caller = connect(args).await.pop().expect("a connection");
    let wanted = args.get_or("rounds", 0_u32).to_le_bytes();
    while caller.call(COUNT, b"").await.expect("a reply") != wanted {}
    println!("counted");
}
