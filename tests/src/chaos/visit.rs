//! The clients that check: `chaos visit board=FILE seed=S visits=N exec=true|false doors=NUMBER,KIND,ADDRESS;...`.
//! One thread, or several, which call one server after the other.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::board::Board;
use super::real;
use super::serve;
use super::talk::{Plan, Stop, Talk, send_all, settle};
use crate::args::Args;
use crate::rng::Rng;

const MOST_THREADS: usize = 5;
const RETRY: Duration = Duration::from_millis(20);

/// Where one can call.
#[derive(Clone)]
pub struct Door {
    /// The number of the server.
    pub server: u64,
    /// `talk` or the name of a real program.
    pub kind: String,
    /// A port of 127.0.0.1, or a path.
    pub address: String,
}

impl Door {
    fn read(words: &str) -> Self {
        let mut words = words.split(',').map(str::to_owned);
        let mut next = || words.next().expect("a word of a door");
        Self {
            server: next().parse().expect("a number"),
            kind: next(),
            address: next(),
        }
    }

    /// As `read` wants it.
    pub fn text(&self) -> String {
        format!("{},{},{}", self.server, self.kind, self.address)
    }

    fn call(&self) -> io::Result<OwnedFd> {
        match self.address.parse::<u16>() {
            Ok(port) => TcpStream::connect(("127.0.0.1", port)).map(OwnedFd::from),
            Err(_) => UnixStream::connect(&self.address).map(OwnedFd::from),
        }
    }
}

/// Runs a client.
pub fn run(args: &Args, board: Board) {
    let seed: u64 = args.get("seed");
    let visits: u64 = args.get("visits");
    let doors: Vec<Door> = args
        .get::<String>("doors")
        .split(';')
        .map(Door::read)
        .collect();
    if args.get("exec") {
        return one_after_another(args, board, seed, visits, &doors);
    }
    let count = 1 + Rng::new(seed, 0).below(MOST_THREADS);
    thread::scope(|scope| {
        for number in 1..=count as u64 {
            let doors = &doors;
            scope.spawn(move || {
                let mut rng = Rng::new(seed, number);
                for _ in 0..visits {
                    if !board.ends(false) {
                        visit(board, &doors[rng.below(doors.len())], &mut rng, None);
                    }
                }
            });
        }
    });
}

/// In one thread, which goes through an exec in the middle of a conversation.
fn one_after_another(args: &Args, board: Board, seed: u64, visits: u64, doors: &[Door]) {
    if let Some(mut talk) = serve::resumed(args, board) {
        let result = talk.poll(None).map(drop);
        talk.account(result);
    }
    for left in (0..visits).rev() {
        let mut rng = Rng::new(seed, left);
        let exec = |talk: &Talk| {
            let words = ["visit".to_owned()].into_iter().chain([
                format!("seed={seed}"),
                format!("visits={left}"),
                "exec=true".to_owned(),
                format!("doors={}", args.get::<String>("doors")),
            ]);
            board.count_exec();
            serve::exec(args, talk, &words.collect::<Vec<_>>())
        };
        if !board.ends(false) {
            visit(board, &doors[rng.below(doors.len())], &mut rng, Some(&exec));
        }
    }
}

fn visit(board: Board, door: &Door, rng: &mut Rng, exec: Option<&dyn Fn(&Talk) -> io::Error>) {
    let fd = match door.call() {
        Ok(fd) => fd,
        // The server was killed, or this process has no descriptor: nothing has begun.
        Err(_) => return thread::sleep(RETRY),
    };
    let talks = door.kind == "talk";
    let id = board.begin(door.server, !talks);
    let slot = &board.pair(id)[0];
    if !talks {
        let result = real::visit(&door.kind, fd, id, slot, rng);
        return settle(slot, id, result);
    }
    let plan = Plan::new(id, rng);
    let mut talk = Talk::new(board, fd, plan, 0);
    let result = match send_all(talk.fd(), &plan.bytes()) {
        Err(error) => Err(error),
        Ok(()) => match exec {
            Some(exec) => match talk.poll(Some(plan.hand)) {
                Ok(Stop::Reached) => panic!("exec: {}", exec(&talk)),
                other => other.map(drop),
            },
            None if rng.below(2) == 0 => talk.block(),
            None => talk.poll(None).map(drop),
        },
    };
    talk.account(result);
}
