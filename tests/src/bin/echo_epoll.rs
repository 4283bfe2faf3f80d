//! An echo server on one thread with epoll, for very many connections: `echo_epoll port=P fds=N
//! warm=CONNECTIONS`. Commands on stdin: `poke` sends one byte on every connection; EOF ends it.
//! A connection whose peer has closed its sending side is closed, or with `keep=1` kept open and
//! silent. At the end it prints what it used after the first `warm` connections and at last.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use tests::args::Args;
use tests::procfs;
use tests::sock::{self, Epoll};

const LISTENER: u64 = u64::MAX;
const STDIN: u64 = u64::MAX - 1;

struct Server {
    listener: TcpListener,
    epoll: Epoll,
    streams: HashMap<u64, TcpStream>,
    keep: bool,
    accepted: u64,
    closed: u64,
}

fn main() {
    let args = Args::from_env();
    sock::allow_fds(args.get_or("fds", 4096)).expect("fd limit");
    let mut server = Server::new(&args).expect("start");
    let warm = args.get_or("warm", 0);
    let mut warmed_up = false;
    while server.turn().expect("serve") {
        if !warmed_up && server.closed >= warm {
            warmed_up = true;
            print_usage("start");
        }
    }
    print_usage("end");
    println!("connections {}", server.accepted);
}

fn print_usage(when: &str) {
    let pid = std::process::id();
    println!(
        "{when} fds {} rss_kib {} mappings {}",
        procfs::fds(pid),
        procfs::resident_kib(pid),
        procfs::mappings(pid)
    );
}

impl Server {
    fn new(args: &Args) -> io::Result<Self> {
        let listener = sock::listen(args.address())?;
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(listener.as_raw_fd(), libc::EPOLLIN, LISTENER)?;
        epoll.add(libc::STDIN_FILENO, libc::EPOLLIN, STDIN)?;
        Ok(Self {
            listener,
            epoll,
            streams: HashMap::new(),
            keep: args.get_or("keep", 0) != 0,
            accepted: 0,
            closed: 0,
        })
    }

    /// One wait and what it brought; false at the end of stdin.
    fn turn(&mut self) -> io::Result<bool> {
        for (_, token) in self.epoll.wait(-1)? {
            match token {
                LISTENER => self.accept()?,
                STDIN => {
                    let mut command = [0; 64];
                    if sock::read(libc::STDIN_FILENO, &mut command)? == 0 {
                        return Ok(false);
                    }
                    self.poke()?;
                }
                token => self.echo(token)?,
            }
        }
        Ok(true)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    self.epoll
                        .add(stream.as_raw_fd(), libc::EPOLLIN, self.accepted)?;
                    self.streams.insert(self.accepted, stream);
                    self.accepted += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn echo(&mut self, token: u64) -> io::Result<()> {
        let mut stream = &self.streams[&token];
        let mut buffer = [0; 4096];
        match sock::recv(stream.as_raw_fd(), &mut buffer, 0)? {
            0 if self.keep => self.epoll.modify(stream.as_raw_fd(), 0, token),
            0 => {
                self.epoll.remove(stream.as_raw_fd())?;
                self.streams.remove(&token);
                self.closed += 1;
                Ok(())
            }
            n => stream.write_all(&buffer[..n]),
        }
    }

    fn poke(&self) -> io::Result<()> {
        self.streams
            .values()
            .try_for_each(|mut stream| stream.write_all(b"!"))
    }
}
