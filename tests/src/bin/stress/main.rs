//! Both sides of a connection send random-sized pieces and check every byte that they receive:
//! `stress listen|connect port=P mode=M seed=S bytes=N conns=C [late=true]`, N bytes each way per
//! connection. A side half-closes as soon as it has sent all; with `late`, when it has also received
//! all (not in `records` and `readers`): behind a half-close ulsock sends through the kernel.
//!
//! | mode | what varies |
//! | --- | --- |
//! | `blocking` | one thread in send, one in recv, every kind of call |
//! | `turns` | several threads take turns in send, and several in recv |
//! | `records` | several threads are in send at once, with small records |
//! | `readers` | several threads are in recv at once |
//! | `poll`, `select`, `epoll`, `edge`, `oneshot` | one thread, non-blocking, all connections |

mod events;
mod piece;
mod readers;
mod records;
mod threads;

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tests::args::Args;
use tests::progress;

/// Nothing moves for so long: a lost wake-up.
const STALL: Duration = Duration::from_secs(20);

/// One connection and what it must carry.
struct Link {
    stream: TcpStream,
    number: u64,
    listens: bool,
    seed: u64,
    bytes: u64,
    late: bool,
    /// Everything has been received, but for the end.
    complete: AtomicBool,
}

impl Link {
    fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// The pattern that we send; the peer's is the other.
    fn outgoing(&self) -> u8 {
        self.number as u8 * 2 + u8::from(self.listens)
    }

    fn incoming(&self) -> u8 {
        self.number as u8 * 2 + u8::from(!self.listens)
    }

    /// A seed for one thread of one direction of this link, different at both ends.
    fn stream_seed(&self, thread: u64) -> u64 {
        (self.number * 2 + u64::from(self.listens)) << 8 | thread
    }
}

fn main() {
    let args = Args::from_env();
    let links = open(&args);
    progress::watch(STALL);
    match args.get::<String>("mode").as_str() {
        "blocking" => threads::run(&links, 1),
        "turns" => threads::run(&links, 3),
        "records" => records::run(&links),
        "readers" => readers::run(&links),
        mode => events::run(&links, mode),
    }
    println!("all bytes in their places");
}

/// Opens the connections one after the other, so that both ends number them alike.
fn open(args: &Args) -> Vec<Link> {
    let listens = args.role() == "listen";
    let listener = listens.then(|| TcpListener::bind(args.address()).expect("bind"));
    (0..args.get("conns"))
        .map(|number| Link {
            stream: match &listener {
                Some(listener) => listener.accept().expect("accept").0,
                None => TcpStream::connect(args.address()).expect("connect"),
            },
            number,
            listens,
            seed: args.get("seed"),
            bytes: args.get("bytes"),
            late: args.get_or("late", false),
            complete: AtomicBool::new(false),
        })
        .collect()
}
