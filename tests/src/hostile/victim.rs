//! Who is attacked: an echo server that also calls whom it is told to, with plain sockets. It serves its honest
//! clients and the hostile ones on one thread, by epoll or poll, or with a blocking thread for each.
//!
//! Commands on stdin: `call PORT` connects there and sends messages for as long as they are answered; EOF ends it.
//! An error, or an end, costs the one connection that it belongs to.

use std::collections::HashMap;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use crate::args::Args;
use crate::sock::{self, Epoll};

const LISTENER: u64 = u64::MAX;
const STDIN: u64 = u64::MAX - 1;
/// Lengths of the messages of a caller, in turn: some need larger rings.
const LENGTHS: [usize; 4] = [64, 3000, 40, 50_000];

/// The program: `victim port=P wait=epoll|poll|threads`.
pub fn main(args: &Args) {
    let listener = sock::listen(args.address()).expect("bind");
    match args.get::<String>("wait").as_str() {
        "threads" => by_threads(listener),
        "poll" => Server::new(listener, None).serve(),
        _ => Server::new(listener, Some(Epoll::new().expect("an epoll set"))).serve(),
    }
}

fn by_threads(listener: TcpListener) {
    let server = move || loop {
        if let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || crate::echo::serve(&stream));
        }
    };
    thread::spawn(server);
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if let Some(stream) = called(&line) {
            thread::spawn(move || call(&stream));
        }
    }
}

/// Whom a command calls.
fn called(line: &str) -> Option<TcpStream> {
    let port = line.strip_prefix("call ")?.trim().parse().ok()?;
    TcpStream::connect(("127.0.0.1", port)).ok()
}

fn call(mut stream: &TcpStream) -> io::Result<()> {
    for length in LENGTHS.iter().cycle() {
        let mut message = vec![7; *length];
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
    }
    Ok(())
}

/// One connection of the server on one thread.
struct Conn {
    stream: TcpStream,
    /// What waits for room.
    out: Vec<u8>,
    /// Of a caller: messages sent, and what is still to come of the answer.
    sent: Option<usize>,
    owed: usize,
}

impl Conn {
    fn new(stream: TcpStream, calls: bool) -> Conn {
        Conn {
            stream,
            out: Vec::new(),
            sent: calls.then_some(0),
            owed: 0,
        }
    }

    /// `false`: it has ended.
    fn turn(&mut self, buffer: &mut [u8]) -> bool {
        let got = match (&self.stream).read(buffer) {
            Ok(0) => return false,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return false,
        };
        match self.sent {
            None => self.out.extend_from_slice(&buffer[..got]),
            Some(_) => self.owed = self.owed.saturating_sub(got),
        }
        self.call_again();
        self.flush()
    }

    fn call_again(&mut self) {
        let Some(sent) = self.sent.filter(|_| self.owed == 0) else {
            return;
        };
        self.owed = LENGTHS[sent % LENGTHS.len()];
        self.out.resize(self.owed, 7);
        self.sent = Some(sent + 1);
    }

    fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match (&self.stream).write(&self.out) {
                Ok(taken) => drop(self.out.drain(..taken)),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn events(&self) -> i16 {
        match self.out.is_empty() {
            true => libc::POLLIN,
            false => libc::POLLIN | libc::POLLOUT,
        }
    }
}

struct Server {
    listener: TcpListener,
    epoll: Option<Epoll>,
    conns: HashMap<u64, Conn>,
    made: u64,
}

impl Server {
    fn new(listener: TcpListener, epoll: Option<Epoll>) -> Server {
        listener.set_nonblocking(true).expect("a flag");
        if let Some(epoll) = &epoll {
            let listener = listener.as_raw_fd();
            epoll.add(listener, libc::EPOLLIN, LISTENER).expect("add");
            epoll.add(0, libc::EPOLLIN, STDIN).expect("add");
        }
        Server {
            listener,
            epoll,
            conns: HashMap::new(),
            made: 0,
        }
    }

    fn serve(mut self) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            for token in self.wait() {
                match token {
                    LISTENER => self.accept(),
                    STDIN => {
                        if !self.obey() {
                            return;
                        }
                    }
                    token => self.turn(token, &mut buffer),
                }
            }
        }
    }

    fn wait(&self) -> Vec<u64> {
        if let Some(epoll) = &self.epoll {
            let ready = epoll.wait(-1).expect("epoll_wait");
            return ready.into_iter().map(|(_, token)| token).collect();
        }
        let mut tokens = vec![LISTENER, STDIN];
        let mut fds = vec![
            sock::pollfd(self.listener.as_raw_fd(), libc::POLLIN),
            sock::pollfd(0, libc::POLLIN),
        ];
        for (token, conn) in &self.conns {
            tokens.push(*token);
            fds.push(sock::pollfd(conn.stream.as_raw_fd(), conn.events()));
        }
        sock::poll(&mut fds, -1).expect("poll");
        let ready = tokens.iter().zip(&fds).filter(|(_, fd)| fd.revents != 0);
        ready.map(|(token, _)| *token).collect()
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.add(Conn::new(stream, false));
        }
    }

    /// `false` at the end of stdin.
    fn obey(&mut self) -> bool {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        if let Some(stream) = called(&line) {
            let mut conn = Conn::new(stream, true);
            conn.call_again();
            self.add(conn);
        }
        read.is_ok_and(|read| read > 0)
    }

    fn add(&mut self, mut conn: Conn) {
        let token = self.made;
        self.made += 1;
        conn.stream.set_nonblocking(true).expect("a flag");
        if let Some(epoll) = &self.epoll {
            let fd = conn.stream.as_raw_fd();
            epoll.add(fd, libc::EPOLLIN, token).expect("add");
        }
        if conn.flush() {
            self.watch(token, &conn);
            self.conns.insert(token, conn);
        }
    }

    fn watch(&self, token: u64, conn: &Conn) {
        if let Some(epoll) = &self.epoll {
            let events = conn.events().into();
            epoll
                .modify(conn.stream.as_raw_fd(), events, token)
                .expect("modify");
        }
    }

    fn turn(&mut self, token: u64, buffer: &mut [u8]) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        let before = conn.events();
        if !conn.turn(buffer) {
            self.conns.remove(&token);
        } else if conn.events() != before {
            self.watch(token, &self.conns[&token]);
        }
    }
}
