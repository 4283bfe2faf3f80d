//! What connections take in memory, at both ends together: idle ones after some small messages, and
//! with `--burst` one that holds many unread bytes, before, meanwhile and afterwards. The server is a
//! second process of this program, which does what it is told on stdin. Prints one line of JSON.

use std::error::Error;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use benches::epoll::Epoll;
use benches::{Outcome, limits, memory};
use clap::Parser;
use serde::Serialize;

/// Round trips on each connection: they are accelerated by then, and have been around the smallest ring.
const ROUNDS: usize = 48;
const MESSAGE: usize = 512;
/// Less than kernel TCP takes with nobody reading.
const BURST: usize = 2 << 20;
/// Memory is given back within this time, up to so much.
const LATER: Duration = Duration::from_secs(4);
const LITTLE_KIB: f64 = 64.0;

#[derive(Parser)]
#[command(version)]
struct Cli {
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    connections: u64,
    /// Send many bytes on one of them, which are read later
    #[arg(long)]
    burst: bool,
    /// The other end, started by this program itself
    #[arg(long, hide = true)]
    serve: bool,
}

/// KiB of both processes.
#[derive(Serialize)]
struct Line {
    idle: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<Burst>,
}

#[derive(Serialize)]
struct Burst {
    unread: f64,
    later: f64,
}

fn main() -> Outcome {
    let cli = Cli::parse();
    limits::raise_open_files()?;
    match cli.serve {
        true => Server::new()?.serve(),
        false => {
            let line = measure(&cli)?;
            println!("{}", serde_json::to_string(&line)?);
            Ok(())
        }
    }
}

fn measure(cli: &Cli) -> Result<Line, Box<dyn Error>> {
    let mut other = Other::start()?;
    let connect = |_| TcpStream::connect(("127.0.0.1", other.port));
    let mut sockets = (0..cli.connections)
        .map(connect)
        .collect::<io::Result<Vec<TcpStream>>>()?;
    for _ in 0..ROUNDS {
        for socket in &mut sockets {
            round_trip(socket)?;
        }
    }
    let idle = other.both(&sockets)?;
    let burst = match cli.burst {
        true => Some(burst(&sockets[0], &mut other, idle)?),
        false => None,
    };
    drop(sockets);
    other.end()?;
    Ok(Line { idle, burst })
}

fn round_trip(socket: &mut TcpStream) -> Outcome {
    let mut message = [7; MESSAGE];
    socket.write_all(&message)?;
    socket.read_exact(&mut message)?;
    Ok(())
}

fn burst(socket: &TcpStream, other: &mut Other, before: f64) -> Result<Burst, Box<dyn Error>> {
    let mine = std::slice::from_ref(socket);
    other.ask("hold")?;
    let sent = fill(socket)?;
    let unread = other.both(mine)?;
    other.ask(&format!("drop {sent}"))?;
    let start = Instant::now();
    loop {
        // As a program sleeps that has nothing to do.
        rest(socket)?;
        let later = other.both(mine)?;
        if later <= before + LITTLE_KIB || start.elapsed() > LATER {
            return Ok(Burst { unread, later });
        }
    }
}

/// Sends until the burst is out, or no more is taken.
fn fill(mut socket: &TcpStream) -> io::Result<usize> {
    socket.set_nonblocking(true)?;
    let piece = [7; 64 << 10];
    let mut sent = 0;
    while sent < BURST {
        match socket.write(&piece) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    socket.set_nonblocking(false)?;
    Ok(sent)
}

fn rest(socket: &TcpStream) -> io::Result<()> {
    let mut entry = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the entry outlives the call.
    match unsafe { libc::poll(&mut entry, 1, 100) } {
        0 => Ok(()),
        1 => Err(io::Error::other("the server said something")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The server, as the client sees it: each line that it is told is answered by one.
struct Other {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    port: u16,
}

impl Other {
    fn start() -> Result<Other, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        let mut other = Other {
            process,
            orders,
            answers: BufReader::new(answers),
            port: 0,
        };
        other.port = other.answer()?.parse()?;
        Ok(other)
    }

    fn ask(&mut self, order: &str) -> Result<String, Box<dyn Error>> {
        writeln!(self.orders, "{order}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the server ended".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// What both processes hold.
    fn both(&mut self, sockets: &[TcpStream]) -> Result<f64, Box<dyn Error>> {
        let theirs: f64 = self.ask("memory")?.parse()?;
        Ok(theirs + memory::used_kib(sockets)?)
    }

    fn end(mut self) -> Outcome {
        drop(self.orders);
        match self.process.wait()?.success() {
            true => Ok(()),
            false => Err("the server failed".into()),
        }
    }
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    sockets: Vec<TcpStream>,
    orders: io::StdinLock<'static>,
}

impl Server {
    fn new() -> Result<Server, Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?.port());
        let (epoll, orders) = (Epoll::new()?, io::stdin().lock());
        epoll.add(listener.as_raw_fd())?;
        epoll.add(orders.as_raw_fd())?;
        let sockets = Vec::new();
        Ok(Server {
            epoll,
            listener,
            sockets,
            orders,
        })
    }

    /// Until there are no more orders.
    fn serve(mut self) -> Outcome {
        let mut ready = Vec::new();
        loop {
            self.epoll.wait(&mut ready)?;
            for &fd in &ready {
                if fd == self.listener.as_raw_fd() {
                    let (socket, _) = self.listener.accept()?;
                    self.epoll.add(socket.as_raw_fd())?;
                    self.sockets.push(socket);
                } else if fd != self.orders.as_raw_fd() {
                    self.echo(fd)?;
                } else if !self.obey()? {
                    return Ok(());
                }
            }
        }
    }

    fn echo(&mut self, fd: i32) -> Outcome {
        let place = self
            .sockets
            .iter()
            .position(|known| known.as_raw_fd() == fd);
        let place = place.ok_or("an unknown socket")?;
        let mut buffer = [0; MESSAGE];
        match self.sockets[place].read(&mut buffer)? {
            0 => drop(self.sockets.swap_remove(place)),
            length => self.sockets[place].write_all(&buffer[..length])?,
        }
        Ok(())
    }

    /// False at the end. From `hold` to `drop N` it reads no socket; then it throws N bytes away.
    fn obey(&mut self) -> Result<bool, Box<dyn Error>> {
        let mut holds = false;
        loop {
            let mut order = String::new();
            if self.orders.read_line(&mut order)? == 0 {
                return Ok(false);
            }
            match order.trim_end().split_once(' ') {
                None if order.starts_with("memory") => {
                    println!("{}", memory::used_kib(&self.sockets)?);
                }
                None => {
                    holds = true;
                    println!("holding");
                }
                Some((_, bytes)) => {
                    let mut unread = (&self.sockets[0]).take(bytes.parse()?);
                    io::copy(&mut unread, &mut io::sink())?;
                    holds = false;
                    println!("dropped");
                }
            }
            if !holds {
                return Ok(true);
            }
        }
    }
}
