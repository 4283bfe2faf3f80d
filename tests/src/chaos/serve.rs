//! The servers that check: `chaos serve style=threads|epoll|edge|fork|pass port=P path=FILE board=FILE`. Each
//! listens on a TCP port and on a Unix socket.
//!
//! | style | who talks |
//! | --- | --- |
//! | `threads` | a thread for each connection, or two |
//! | `epoll`, `edge` | one thread for all |
//! | `fork` | a child for each connection, which goes through an exec in mid-stream |
//! | `pass` | a thread, until it passes the connection in mid-stream to a process that was forked at the start |

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::board::Board;
use super::talk::{PLAN, Plan, Stop, Talk, adopt};
use crate::args::Args;
use crate::passing;
use crate::sock::{self, Epoll, Forked};

/// How often one looks whether to end.
const LOOK_MS: i32 = 100;
/// Before accept is tried again that found no descriptor.
const RETRY: Duration = Duration::from_millis(10);
/// Bytes of a passed conversation's words.
const WORDS: usize = 512;

/// The two doors of a server.
struct Doors {
    tcp: TcpListener,
    unix: UnixListener,
}

impl Doors {
    /// A killed server's children may hold the port for a moment.
    fn open(args: &Args) -> Self {
        let path = args.get::<String>("path");
        let tcp = loop {
            match sock::listen(args.address()) {
                Ok(listener) => break listener,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(RETRY),
                Err(error) => panic!("listen: {error}"),
            }
        };
        let _ = fs::remove_file(&path);
        let unix = UnixListener::bind(Path::new(&path)).expect("bind");
        Self { tcp, unix }
    }

    fn fds(&self) -> [RawFd; 2] {
        [self.tcp.as_raw_fd(), self.unix.as_raw_fd()]
    }

    /// A connection at either door, if there is one that can be taken now.
    fn accept(&self) -> Vec<OwnedFd> {
        let mut fds = self.fds().map(|fd| sock::pollfd(fd, libc::POLLIN));
        if sock::poll(&mut fds, LOOK_MS).unwrap_or(0) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        if fds[0].revents != 0 {
            found.push(self.tcp.accept().map(|(stream, _)| stream.into()));
        }
        if fds[1].revents != 0 {
            found.push(self.unix.accept().map(|(stream, _)| stream.into()));
        }
        if found.iter().any(Result::is_err) {
            thread::sleep(RETRY);
        }
        found.into_iter().flatten().collect()
    }
}

/// Runs a server until the board says to end.
pub fn run(args: &Args, board: Board) {
    match args.get::<String>("style").as_str() {
        "threads" => threads(args, board),
        "fork" => fork(args, board),
        "pass" => pass(args, board),
        style => epoll(args, board, style == "edge"),
    }
    let _ = fs::remove_file(args.get::<String>("path"));
}

/// Who dies before it has said what it wants leaves only its own account.
fn greet(board: Board, fd: OwnedFd) -> Option<Talk> {
    let mut bytes = [0; PLAN];
    let mut filled = 0;
    while filled < PLAN {
        match sock::recv(fd.as_raw_fd(), &mut bytes[filled..], 0) {
            Ok(0) | Err(_) => return None,
            Ok(count) => filled += count,
        }
    }
    Some(Talk::new(board, fd, Plan::read(&bytes), 1))
}

fn threads(args: &Args, board: Board) {
    let doors = Doors::open(args);
    while !board.ends(true) {
        for fd in doors.accept() {
            thread::spawn(move || {
                let Some(mut talk) = greet(board, fd) else {
                    return;
                };
                let result = match talk.plan.id % 2 {
                    0 => talk.block(),
                    _ => talk.poll(None).map(drop),
                };
                talk.account(result);
            });
        }
    }
}

fn fork(args: &Args, board: Board) {
    let doors = Doors::open(args);
    while !board.ends(true) {
        for fd in doors.accept() {
            match sock::fork() {
                Ok(Forked::Child) => {
                    for door in doors.fds() {
                        // SAFETY: the child leaves by exec or exit, and uses the doors no more.
                        unsafe { libc::close(door) };
                    }
                    child(args, board, fd);
                }
                Ok(Forked::Parent(_)) => {}
                Err(error) => panic!("fork: {error}"),
            }
        }
        // SAFETY: without a pointer; children that have ended are forgotten, the board accounts for them.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
}

fn child(args: &Args, board: Board, fd: OwnedFd) -> ! {
    let Some(mut talk) = greet(board, fd) else {
        exit(0)
    };
    match talk.poll(Some(talk.plan.hand)) {
        Ok(Stop::Reached) => {
            board.count_exec();
            let error = exec(args, &talk, &["finish".to_owned()]);
            panic!("exec: {error}");
        }
        Ok(Stop::Over) => talk.account(Ok(())),
        Err(error) => talk.account(Err(error)),
    }
    exit(0)
}

/// This program anew, with the connection; returns only if that fails.
pub fn exec(args: &Args, talk: &Talk, words: &[String]) -> io::Error {
    // SAFETY: plain integers; the descriptor is to survive the exec.
    unsafe { libc::fcntl(talk.fd(), libc::F_SETFD, 0) };
    Command::new("/proc/self/exe")
        .args(words)
        .arg(format!("board={}", args.get::<String>("board")))
        .arg(format!("fd={}", talk.fd()))
        .arg(format!("state={}", talk.words()))
        .exec()
}

/// The conversation that came through an exec.
pub fn resumed(args: &Args, board: Board) -> Option<Talk> {
    let fd = args.find::<RawFd>("fd")?;
    // SAFETY: plain integers.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    Some(Talk::resume(board, adopt(fd), &args.get::<String>("state")))
}

/// What a child of a `fork` server does after its exec.
pub fn finish(args: &Args, board: Board) {
    let mut talk = resumed(args, board).expect("a conversation");
    let result = talk.poll(None).map(drop);
    talk.account(result);
}

fn pass(args: &Args, board: Board) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    if let Forked::Child = sock::fork().expect("fork") {
        drop(ours);
        take_over(board, theirs);
        exit(0)
    }
    drop(theirs);
    let helper = Arc::new(Mutex::new(ours));
    let doors = Doors::open(args);
    while !board.ends(true) {
        for fd in doors.accept() {
            let helper = Arc::clone(&helper);
            thread::spawn(move || {
                let Some(mut talk) = greet(board, fd) else {
                    return;
                };
                match talk.poll(Some(talk.plan.hand)) {
                    Ok(Stop::Reached) => hand(board, talk, &helper.lock().expect("the helper")),
                    other => talk.account(other.map(drop)),
                }
            });
        }
    }
}

fn hand(board: Board, talk: Talk, mut helper: &UnixStream) {
    let mut words = [b' '; WORDS];
    let text = talk.words();
    words[..text.len()].copy_from_slice(text.as_bytes());
    board.count_pass();
    passing::send_fd(helper.as_raw_fd(), talk.fd()).expect("pass");
    helper.write_all(&words).expect("pass the words");
    drop(talk.into_fd());
}

fn take_over(board: Board, mut from: UnixStream) {
    while let Ok(fd) = passing::recv_fd(from.as_raw_fd()) {
        let mut words = [0; WORDS];
        from.read_exact(&mut words).expect("the words");
        let text = String::from_utf8_lossy(&words).trim().to_owned();
        thread::spawn(move || {
            let mut talk = Talk::resume(board, adopt(fd), &text);
            let result = talk.poll(None).map(drop);
            talk.account(result);
        });
    }
    // The board has already said to end: nobody talks any more.
}

/// A connection in the epoll set; without a talk until the plan is complete.
struct Guest {
    fd: Option<OwnedFd>,
    plan: Vec<u8>,
    talk: Option<Talk>,
}

fn epoll(args: &Args, board: Board, edge: bool) {
    let doors = Doors::open(args);
    let epoll = Epoll::new().expect("epoll");
    for door in doors.fds() {
        epoll.add(door, libc::EPOLLIN, 0).expect("add");
    }
    let mut guests: HashMap<u64, Guest> = HashMap::new();
    while !board.ends(true) {
        for (_, number) in epoll.wait(LOOK_MS).unwrap_or_default() {
            if number == 0 {
                for fd in doors.accept() {
                    welcome(&epoll, fd, edge, &mut guests);
                }
            } else if let Some(guest) = guests.get_mut(&number)
                && guest.step(board, edge)
            {
                guests.remove(&number);
            } else if !edge {
                guests[&number].adjust(&epoll, number);
            }
        }
    }
}

fn welcome(epoll: &Epoll, fd: OwnedFd, edge: bool, guests: &mut HashMap<u64, Guest>) {
    let number = fd.as_raw_fd() as u64;
    sock::set_nonblocking(fd.as_raw_fd(), true).expect("fcntl");
    let events = match edge {
        true => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET,
        false => libc::EPOLLIN,
    };
    epoll.add(fd.as_raw_fd(), events, number).expect("add");
    let guest = Guest {
        fd: Some(fd),
        plan: Vec::new(),
        talk: None,
    };
    guests.insert(number, guest);
}

impl Guest {
    /// Gives whether it has left.
    fn step(&mut self, board: Board, edge: bool) -> bool {
        if self.talk.is_none() && self.greet(board) {
            return true;
        }
        let Some(talk) = &mut self.talk else {
            return false;
        };
        match talk.step(edge) {
            Ok(false) => false,
            result => {
                talk.account(result.map(drop));
                true
            }
        }
    }

    fn greet(&mut self, board: Board) -> bool {
        let mut bytes = [0; PLAN];
        let fd = self.fd.as_ref().expect("not given to a talk yet");
        let missing = PLAN - self.plan.len();
        match sock::recv(fd.as_raw_fd(), &mut bytes[..missing], 0) {
            Ok(0) => return true,
            Ok(count) => self.plan.extend_from_slice(&bytes[..count]),
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
        if let Ok(bytes) = <&[u8; PLAN]>::try_from(self.plan.as_slice()) {
            let fd = self.fd.take().expect("not given to a talk yet");
            self.talk = Some(Talk::new(board, fd, Plan::read(bytes), 1));
        }
        false
    }

    /// The set asks for what the talk wants.
    fn adjust(&self, epoll: &Epoll, number: u64) {
        if let Some(talk) = &self.talk {
            let events = i32::from(talk.wants());
            epoll.modify(talk.fd(), events, number).expect("modify");
        }
    }
}
