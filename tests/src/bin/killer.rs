//! A program that may be killed at any time, and the one that survives it: `killer listen|connect
//! port=P log=FILE seed=S [go=FILE] [send=1] [receive=1] [half=1] [pause_ms=N] [wait=recv|poll|epoll]`.
//!
//! After a warm-up of round trips, which lasts until the connecting end finds `go`, `send` streams the pattern and `receive` checks one; `half` closes
//! the sending side at once. `log` always holds how many bytes send() has returned for, as eight
//! bytes; it appears when the connection is there. At its end the program prints one line of JSON:
//! how far it read, how each direction ended and when (monotonic milliseconds).

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tests::args::Args;
use tests::pattern;
use tests::rng::Rng;
use tests::sock::{self, Epoll};

const WARM_UP: usize = 20;
const MESSAGE: usize = 32;
const MAX_PIECE: usize = 64 * 1024;

/// How a direction ended, and when.
struct End {
    how: &'static str,
    bytes: u64,
    at_ms: u128,
}

impl End {
    fn now(how: &'static str, bytes: u64) -> Self {
        let at_ms = sock::now().as_millis();
        Self { how, bytes, at_ms }
    }

    fn of(error: &io::Error, bytes: u64) -> Self {
        let how = match error.kind() {
            ErrorKind::ConnectionReset => "reset",
            ErrorKind::BrokenPipe => "pipe",
            ErrorKind::UnexpectedEof => "eof",
            other => panic!("unexpected error: {other:?} {error}"),
        };
        Self::now(how, bytes)
    }

    fn json(&self) -> serde_json::Value {
        json!({"how": self.how, "bytes": self.bytes, "at_ms": self.at_ms as u64})
    }
}

fn main() {
    let args = Args::from_env();
    let listens = args.role() == "listen";
    let stream = if listens {
        let listener = TcpListener::bind(args.address()).expect("bind");
        listener.accept().expect("accept").0
    } else {
        TcpStream::connect(args.address()).expect("connect")
    };
    let log = File::create(args.get::<String>("log")).expect("log");
    log.write_all_at(&0u64.to_le_bytes(), 0).expect("log");
    let ends = match warm_up(&stream, listens, args.find::<String>("go")) {
        Ok(()) => talk(&args, &stream, &log, u8::from(listens)),
        Err(error) => (Some(End::of(&error, 0)), Some(End::of(&error, 0))),
    };
    let [received, sent] = [ends.0, ends.1].map(|end| end.map(|end| end.json()));
    println!("{}", json!({"received": received, "sent": sent}));
}

/// The last message says so.
fn warm_up(mut stream: &TcpStream, listens: bool, go: Option<String>) -> io::Result<()> {
    for round in 1.. {
        let may_go = || go.as_ref().is_none_or(|go| Path::new(go).exists());
        let is_last = !listens && round >= WARM_UP && may_go();
        let mut message = [u8::from(is_last); MESSAGE];
        if !listens {
            stream.write_all(&message)?;
        }
        stream.read_exact(&mut message)?;
        if listens {
            stream.write_all(&message)?;
        }
        if message[0] == 1 {
            break;
        }
    }
    Ok(())
}

/// The two directions at once; a direction that was not asked for gives nothing.
fn talk(args: &Args, stream: &TcpStream, log: &File, own: u8) -> (Option<End>, Option<End>) {
    let on = |name| args.get_or(name, 0) != 0;
    if on("half")
        && let Err(error) = stream.shutdown(Shutdown::Write)
    {
        assert_eq!(error.kind(), ErrorKind::NotConnected, "shutdown: {error}");
    }
    thread::scope(|scope| {
        let sender = on("send").then(|| scope.spawn(|| send(args, stream, log, own)));
        let receiver = on("receive").then(|| scope.spawn(|| receive(args, stream, 1 - own)));
        let join = |thread: thread::ScopedJoinHandle<'_, End>| thread.join().expect("a direction");
        (receiver.map(join), sender.map(join))
    })
}

fn send(args: &Args, stream: &TcpStream, log: &File, direction: u8) -> End {
    let mut rng = Rng::new(args.get("seed"), 1);
    let mut position = 0;
    let mut piece = vec![0; MAX_PIECE];
    loop {
        let length = rng.size(MAX_PIECE);
        pattern::fill(direction, position, &mut piece[..length]);
        match sock::send(stream.as_raw_fd(), &piece[..length], libc::MSG_NOSIGNAL) {
            Ok(sent) => position += sent as u64,
            Err(error) => return End::of(&error, position),
        }
        log.write_all_at(&position.to_le_bytes(), 0).expect("log");
    }
}

fn receive(args: &Args, stream: &TcpStream, direction: u8) -> End {
    let wait = waiter(&args.get_or("wait", "recv".to_owned()), stream);
    let pause = Duration::from_millis(args.get_or("pause_ms", 0));
    thread::sleep(pause);
    let mut rng = Rng::new(args.get("seed"), 2);
    let mut position = 0;
    let mut piece = vec![0; MAX_PIECE];
    loop {
        wait();
        let length = rng.size(MAX_PIECE);
        match sock::recv(stream.as_raw_fd(), &mut piece[..length], 0) {
            Ok(0) => return End::now("eof", position),
            Ok(received) => {
                pattern::check(direction, position, &piece[..received])
                    .unwrap_or_else(|wrong| panic!("{wrong}"));
                position += received as u64;
            }
            Err(error) => return End::of(&error, position),
        }
    }
}

/// What to call before each recv.
fn waiter<'a>(kind: &str, stream: &'a TcpStream) -> Box<dyn Fn() + 'a> {
    let fd = stream.as_raw_fd();
    match kind {
        "recv" => Box::new(|| {}),
        "poll" => Box::new(move || sock::wait(fd, libc::POLLIN).expect("poll")),
        "epoll" => {
            let epoll = Epoll::new().expect("epoll");
            epoll.add(fd, libc::EPOLLIN, 0).expect("add");
            Box::new(move || drop(epoll.wait(-1).expect("wait")))
        }
        other => panic!("wait={other}"),
    }
}
