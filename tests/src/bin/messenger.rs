//! A program that sends messages with ulsock's own library: `messenger ROLE port=P [host=A] [conns=N] [tasks=T] [rounds=R]
//! [max=BYTES] [told=1]`.
//!
//! `serve` sends each message back, while it comes, and ends when N peers have come and gone. `call` has T tasks on one
//! connection, each with R messages, one after the other, and checks every byte that comes back; with `told=1` they go on
//! until stdin ends. `wait` makes its calls, then waits until the peer is gone, and says why.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread;

use native::message::{Endpoint, Incoming, MessageError, Peer};
use native::run::{block_on, spawn};
use tests::args::Args;
use tests::pattern;
use tests::rng::Rng;

const ECHO: u16 = 7;
const ANSWER: u16 = 8;

fn main() {
    let args = Args::from_env();
    let done = match args.role() {
        "serve" => block_on(serve(&args)),
        _ => block_on(call(&args)),
    };
    done.expect("a loop").expect("messages that work");
}

/// Peers that have come and gone, and who waits for that.
#[derive(Default)]
struct Gone {
    count: Cell<usize>,
    waiter: Cell<Option<Waker>>,
}

async fn serve(args: &Args) -> Result<(), MessageError> {
    let endpoint = Endpoint::bind(args.address())?;
    endpoint.handle(ECHO, echo);
    let gone = Rc::new(Gone::default());
    let seen = gone.clone();
    endpoint.on_arrival(move |peer| {
        let seen = seen.clone();
        drop(spawn(async move {
            println!("{}", peer.gone().await);
            seen.count.set(seen.count.get() + 1);
            if let Some(waiter) = seen.waiter.take() {
                waiter.wake();
            }
        }));
    });
    drop(spawn(async move { endpoint.serve().await }));
    let conns: usize = args.get_or("conns", 1);
    poll_fn(|context| {
        gone.waiter.set(Some(context.waker().clone()));
        match gone.count.get() < conns {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    })
    .await
}

/// Pieces of other lengths than those that come.
async fn echo(mut message: Incoming) -> Result<(), MessageError> {
    let mut answer = message.peer().begin(ANSWER)?;
    let mut room = vec![0; 100_000];
    let mut size = 16;
    loop {
        match message.read(&mut room[..size]).await? {
            0 => return answer.end().await,
            n => answer.piece(&room[..n]).await?,
        }
        size = size * 7 % 99_991 + 1;
    }
}

/// What the tasks and the handler of answers share.
#[derive(Default)]
struct Answers {
    /// Rounds that have come back whole, and who waits for the next.
    rounds: RefCell<Vec<(u64, Option<Waker>)>>,
    open: Cell<usize>,
}

impl Answers {
    async fn take(self: Rc<Self>, mut message: Incoming) -> Result<(), MessageError> {
        let mut head = [0; 16];
        message.read_exact(&mut head).await?;
        let word = |at: usize| {
            head[at..]
                .first_chunk()
                .map_or(0, |w| u64::from_le_bytes(*w))
        };
        let (task, round) = (word(0), word(8));
        let (mut at, mut size) = (0, 1);
        let mut room = vec![0; 70_000];
        loop {
            let n = message.read(&mut room[..size]).await?;
            if n == 0 {
                break;
            }
            pattern::check(task as u8, (round << 24) + at, &room[..n]).expect("the same bytes");
            at += n as u64;
            size = size * 5 % 69_997 + 1;
        }
        assert_eq!(at, length(task, round, self.open.get()) as u64, "all bytes");
        let mut rounds = self.rounds.borrow_mut();
        let (done, waiter) = &mut rounds[task as usize];
        *done += 1;
        if let Some(waiter) = waiter.take() {
            waiter.wake();
        }
        Ok(())
    }

    async fn has(&self, task: u64, round: u64) {
        poll_fn(|context| {
            let (done, waiter) = &mut self.rounds.borrow_mut()[task as usize];
            if *done > round {
                return Poll::Ready(());
            }
            *waiter = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn length(task: u64, round: u64, max: usize) -> usize {
    Rng::new(task, round).size(max)
}

async fn call(args: &Args) -> Result<(), MessageError> {
    let endpoint = Rc::new(Endpoint::new());
    let answers = Rc::new(Answers::default());
    let (tasks, rounds, max) = (
        args.get_or("tasks", 1_u64),
        args.get_or("rounds", 100_u64),
        args.get_or("max", 100_000_usize),
    );
    answers.open.set(max);
    *answers.rounds.borrow_mut() = (0..tasks).map(|_| (0, None)).collect();
    let taker = answers.clone();
    endpoint.handle(ANSWER, move |message| taker.clone().take(message));
    let mut addresses = args.address().to_socket_addrs().expect("an address");
    let peer = endpoint
        .connect(addresses.next().expect("an address"))
        .await?;
    let serving = endpoint.clone();
    drop(spawn(async move { serving.serve().await }));
    let told = told(args.get_or("told", 0) == 0);
    let mut running = Vec::new();
    for task in 0..tasks {
        let (peer, answers, told) = (peer.clone(), answers.clone(), told.clone());
        running.push(spawn(async move {
            let mut round = 0;
            while round < rounds || !told.load(Ordering::Relaxed) {
                send(&peer, task, round, max).await?;
                answers.has(task, round).await;
                round += 1;
            }
            Ok::<(), MessageError>(())
        }));
    }
    for task in running {
        task.await?;
    }
    if args.role() == "wait" {
        println!("waits");
        println!("{}", peer.gone().await);
    }
    Ok(())
}

async fn send(peer: &Peer, task: u64, round: u64, max: usize) -> Result<(), MessageError> {
    let mut bytes = vec![0; length(task, round, max)];
    pattern::fill(task as u8, round << 24, &mut bytes);
    let mut message = peer.begin(ECHO)?;
    message.piece(&task.to_le_bytes()).await?;
    message.piece(&round.to_le_bytes()).await?;
    let mut rng = Rng::new(round, task);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rng.size(rest.len()).max(1).min(rest.len()));
        message.piece(piece).await?;
        rest = behind;
    }
    message.end().await
}

/// Set when stdin ends, or at once.
fn told(at_once: bool) -> Arc<AtomicBool> {
    let told = Arc::new(AtomicBool::new(at_once));
    if !at_once {
        let flag = told.clone();
        thread::spawn(move || {
            io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
            flag.store(true, Ordering::Relaxed);
        });
    }
    told
}
