//! A transfer that goes on until it is told to end, for faults that come meanwhile:
//! `carry listen|connect host=A port=P conns=N log=FILE [style=stream|echo] [timeout_ms=N] [keep_alive=S]`.
//!
//! With `stream` both ends make some round trips, and then send pieces of the pattern on every connection and
//! check what they receive; with `echo` the connecting end goes on with round trips. `log` always holds how many
//! bytes this end has received, as eight bytes. When the connecting end's stdin ends it half-closes, the other
//! end follows, and each prints a line of JSON: for every connection the bytes sent and received, and `end` or
//! the error that ended it. `timeout_ms` is how long the kernel waits for acknowledgements; after `keep_alive` seconds
//! without a word it asks, twice.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tests::args::Args;
use tests::echo::{self, Caller};
use tests::rng::Rng;
use tests::{pattern, progress, sock};

const MAX_PIECE: usize = 64 * 1024;
const WARM_UP: usize = 200;
const MESSAGE: usize = 100;
/// Nothing moves for so long, though every fault is over sooner.
const STALL: Duration = Duration::from_secs(40);

/// The connecting end has been told to end, or the other end has seen the end of a stream.
static OVER: AtomicBool = AtomicBool::new(false);
static RECEIVED: AtomicU64 = AtomicU64::new(0);

struct Link<'a> {
    stream: TcpStream,
    number: u64,
    listens: bool,
    echo: bool,
    log: &'a File,
    gauge: std::sync::Arc<progress::Gauge>,
}

fn main() {
    let args = Args::from_env();
    let log = File::create(args.get::<String>("log")).expect("log");
    log.write_all_at(&0u64.to_le_bytes(), 0).expect("log");
    let links = open(&args, &log);
    progress::watch(STALL);
    if args.role() == "connect" {
        thread::spawn(|| {
            io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
            OVER.store(true, Ordering::Release);
        });
    }
    let results: Vec<Value> = thread::scope(|scope| {
        let threads: Vec<_> = links
            .iter()
            .map(|link| scope.spawn(move || link.run()))
            .collect();
        let threads = threads.into_iter();
        threads
            .map(|thread| thread.join().expect("a link"))
            .collect()
    });
    println!("{}", Value::from(results));
}

fn open<'a>(args: &Args, log: &'a File) -> Vec<Link<'a>> {
    let listens = args.role() == "listen";
    let listener = listens.then(|| TcpListener::bind(args.address()).expect("bind"));
    let echo = args.get_or("style", "stream".to_owned()) == "echo";
    let stream = || match &listener {
        Some(listener) => listener.accept().expect("accept").0,
        None => TcpStream::connect(args.address()).expect("connect"),
    };
    let link = |number| {
        let stream = stream();
        stream.set_nodelay(true).expect("TCP_NODELAY");
        if let Some(limit) = args.find("timeout_ms") {
            sock::set_user_timeout(stream.as_raw_fd(), limit).expect("TCP_USER_TIMEOUT");
        }
        if let Some(seconds) = args.find("keep_alive") {
            sock::set_keep_alive(stream.as_raw_fd(), seconds, 2).expect("SO_KEEPALIVE");
        }
        Link {
            stream,
            number,
            listens,
            echo,
            log,
            gauge: progress::gauge(format!("connection {number}"), 0),
        }
    };
    (0..args.get("conns")).map(link).collect()
}

impl Link<'_> {
    fn run(&self) -> Value {
        let ends = match (self.echo, self.listens) {
            (false, _) => self.both_ways(),
            (true, true) => self.answer(),
            (true, false) => self.call(),
        };
        json!({"sent": ends.sent, "received": ends.received, "end": ends.how})
    }

    /// Small messages to and fro, with time between them to leave the kernel.
    fn warm_up(&self) -> io::Result<()> {
        let mut caller = Caller::new(&self.stream, 2);
        (0..WARM_UP).try_for_each(|_| match self.listens {
            true => echo::serve_one(&self.stream, MESSAGE),
            false => {
                thread::sleep(Duration::from_millis(1));
                caller.round_trip(MESSAGE)
            }
        })
    }

    fn both_ways(&self) -> Ends {
        if let Err(error) = self.warm_up() {
            return Ends::new(0, 0, Some(error));
        }
        let (sent, received) = thread::scope(|scope| {
            let sender = scope.spawn(|| self.send());
            let received = self.receive();
            (sender.join().expect("the sender"), received)
        });
        let how = received.1.err().or(sent.1.err());
        Ends::new(sent.0, received.0, how)
    }

    fn send(&self) -> (u64, io::Result<()>) {
        let mut rng = Rng::new(1, self.number);
        let (mut piece, mut position) = (vec![0; MAX_PIECE], 0);
        while !OVER.load(Ordering::Acquire) {
            let length = rng.size(MAX_PIECE);
            if let Err(error) = self.send_piece(&mut piece[..length], &mut position) {
                return (position, Err(error));
            }
        }
        (position, self.stream.shutdown(Shutdown::Write))
    }

    fn send_piece(&self, piece: &mut [u8], position: &mut u64) -> io::Result<()> {
        pattern::fill(u8::from(self.listens), *position, piece);
        let mut done = 0;
        while done < piece.len() {
            done += sock::send(self.stream.as_raw_fd(), &piece[done..], libc::MSG_NOSIGNAL)?;
        }
        *position += done as u64;
        Ok(())
    }

    fn receive(&self) -> (u64, io::Result<()>) {
        let (mut piece, mut position) = (vec![0; MAX_PIECE], 0);
        loop {
            match (&self.stream).read(&mut piece) {
                Ok(0) => {
                    OVER.store(true, Ordering::Release);
                    return (position, Ok(()));
                }
                Ok(length) => self.check(&mut position, &piece[..length]),
                Err(error) => return (position, Err(error)),
            }
        }
    }

    /// What came must be the other end's pattern.
    fn check(&self, position: &mut u64, piece: &[u8]) {
        let direction = match self.echo {
            true => 0,
            false => u8::from(!self.listens),
        };
        pattern::check(direction, *position, piece).unwrap_or_else(|wrong| panic!("{wrong}"));
        *position += piece.len() as u64;
        let all = RECEIVED.fetch_add(piece.len() as u64, Ordering::Relaxed) + piece.len() as u64;
        self.log.write_all_at(&all.to_le_bytes(), 0).expect("log");
        self.gauge.add(piece.len() as u64);
    }

    fn answer(&self) -> Ends {
        let (mut piece, mut position) = (vec![0; MAX_PIECE], 0);
        let mut turn = || -> io::Result<usize> {
            let length = (&self.stream).read(&mut piece)?;
            self.check(&mut position, &piece[..length]);
            io::Write::write_all(&mut &self.stream, &piece[..length])?;
            Ok(length)
        };
        let how = loop {
            match turn() {
                Ok(0) => break self.stream.shutdown(Shutdown::Write).err(),
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        Ends::new(position, position, how)
    }

    fn call(&self) -> Ends {
        let mut rng = Rng::new(2, self.number);
        let (mut sent, mut received, mut how) = (0, 0, None);
        while how.is_none() && !OVER.load(Ordering::Acquire) {
            let mut message = vec![0; rng.size(2000)];
            let mut turn = || -> io::Result<()> {
                self.send_piece(&mut message, &mut sent)?;
                (&self.stream).read_exact(&mut message)?;
                self.check(&mut received, &message);
                Ok(())
            };
            how = turn().err();
        }
        let rest = || {
            self.stream.shutdown(Shutdown::Write)?;
            match (&self.stream).read(&mut [0])? {
                0 => Ok(()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        Ends::new(sent, received, how.or_else(|| rest().err()))
    }
}

struct Ends {
    sent: u64,
    received: u64,
    how: String,
}

impl Ends {
    fn new(sent: u64, received: u64, error: Option<io::Error>) -> Self {
        let how = error.map_or("end".to_owned(), |error| format!("{:?}", error.kind()));
        Self {
            sent,
            received,
            how,
        }
    }
}
