//! A careful HTTP client: `http_load port=P file=F bytes=B keep=N fresh=N`. Until its stdin ends, `keep`
//! threads send requests over kept connections and `fresh` threads use a new one for each; every
//! body is checked. Prints how many requests were answered, every now and then and at the end, and how many were sent again.
//!
//! A server may close a kept connection at any time, also while a request is on its way: only then,
//! and if nothing of an answer has come, the request is sent again on a new one, as browsers do.
//! Anything else that goes wrong ends the program with status 1.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tests::args::Args;
use tests::pattern;
use tests::rng::Rng;

static STOP: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static AGAIN: AtomicU64 = AtomicU64::new(0);
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_REQUESTS: usize = 400;
/// Answers between two lines that tell how many there were.
const LINE_EVERY: u64 = 20;

#[derive(Clone)]
struct Target {
    port: u16,
    file: String,
    bytes: usize,
}

fn main() {
    let args = Args::from_env();
    let target = Target {
        port: args.get("port"),
        file: args.get("file"),
        bytes: args.get("bytes"),
    };
    let keep: u64 = args.get("keep");
    let fresh: u64 = args.get("fresh");
    let threads: Vec<_> = (0..keep + fresh)
        .map(|number| {
            let target = target.clone();
            thread::spawn(move || client(&target, number, number < keep))
        })
        .collect();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    STOP.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a client"));
    println!(
        "answered {} again {}",
        ANSWERED.load(Ordering::Relaxed),
        AGAIN.load(Ordering::Relaxed)
    );
}

fn client(target: &Target, number: u64, keep: bool) {
    let mut rng = Rng::new(number, 0);
    while !STOP.load(Ordering::Relaxed) {
        let requests = if keep {
            1 + rng.below(MOST_REQUESTS)
        } else {
            1
        };
        if let Err(error) = connection(target, requests, keep) {
            eprintln!("client {number}, keep {keep}: {error}");
            std::process::exit(1);
        }
    }
}

/// One connection with up to so many requests.
fn connection(target: &Target, requests: usize, keep: bool) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", target.port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    for request in 0..requests {
        if STOP.load(Ordering::Relaxed) {
            break;
        }
        let mut answer = Vec::new();
        match exchange(&mut stream, target, keep, &mut answer) {
            Ok(open) => {
                count_answer();
                if !open {
                    break;
                }
            }
            Err(error) if request > 0 && answer.is_empty() && is_closed(&error) => {
                AGAIN.fetch_add(1, Ordering::Relaxed);
                break;
            }
            Err(error) => {
                let text = format!("request {request}, {} bytes: {error}", answer.len());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok(())
}

/// Whoever has started us waits for such lines.
fn count_answer() {
    let answered = ANSWERED.fetch_add(1, Ordering::Relaxed) + 1;
    if answered.is_multiple_of(LINE_EVERY) {
        println!("{answered} answered");
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// One request and its answer; whether the connection may be used again.
fn exchange(
    stream: &mut TcpStream,
    target: &Target,
    keep: bool,
    answer: &mut Vec<u8>,
) -> io::Result<bool> {
    let how = if keep { "keep-alive" } else { "close" };
    let file = &target.file;
    let request = format!("GET /{file} HTTP/1.1\r\nHost: test\r\nConnection: {how}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let header = loop {
        more(stream, answer)?;
        if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    while answer.len() < header + target.bytes {
        more(stream, answer)?;
    }
    let head = String::from_utf8_lossy(&answer[..header]).to_ascii_lowercase();
    let length = format!("content-length: {}\r\n", target.bytes);
    if !head.starts_with("http/1.1 200 ") || !head.contains(&length) {
        return Err(io::Error::other(format!("answer {head:?}")));
    }
    pattern::check(0, 0, &answer[header..]).map_err(|wrong| io::Error::other(wrong.to_string()))?;
    let open = keep && !head.contains("connection: close");
    if !open && read(stream, &mut [0])? != 0 {
        return Err(io::Error::other("bytes after the answer"));
    }
    Ok(open)
}

fn more(stream: &mut TcpStream, answer: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16384];
    let n = read(stream, &mut buffer)?;
    if n == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    answer.extend_from_slice(&buffer[..n]);
    Ok(())
}

/// A debugger that attaches interrupts a read with a timeout.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
