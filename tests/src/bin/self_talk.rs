//! One thread that talks to itself: `self_talk port=P rounds=R bytes=N`. It connects to its own
//! listener, sends and receives on both ends in turn, polls both, and sends N bytes each way before
//! it receives any.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use tests::args::Args;
use tests::pattern;
use tests::rng::Rng;
use tests::sock;

const MAX_PIECE: usize = 32 * 1024;

/// One direction: from one end to the other.
struct Way<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    direction: u8,
    sent: u64,
    received: u64,
}

impl Way<'_> {
    fn send(&mut self, length: usize) {
        let mut piece = vec![0; length];
        pattern::fill(self.direction, self.sent, &mut piece);
        self.from.write_all(&piece).expect("send");
        self.sent += length as u64;
    }

    fn receive(&mut self) {
        let mut piece = vec![0; (self.sent - self.received) as usize];
        self.to.read_exact(&mut piece).expect("receive");
        pattern::check(self.direction, self.received, &piece).unwrap_or_else(|e| panic!("{e}"));
        self.received = self.sent;
    }
}

fn main() {
    let args = Args::from_env();
    let listener = TcpListener::bind(args.address()).expect("bind");
    let near = TcpStream::connect(args.address()).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    for end in [&near, &far] {
        end.set_nodelay(true).expect("TCP_NODELAY");
    }
    let mut ways = [(&near, &far), (&far, &near)].map(|(from, to)| Way {
        direction: u8::from(std::ptr::eq(from, &far)),
        from,
        to,
        sent: 0,
        received: 0,
    });
    let mut rng = Rng::new(args.get_or("seed", 1), 0);
    for _ in 0..args.get::<usize>("rounds") {
        let way = rng.below(2);
        check_readiness(&near, &far, [false, false]);
        ways[way].send(rng.size(MAX_PIECE));
        check_readiness(&near, &far, [way == 1, way == 0]);
        ways[way].receive();
    }
    let length = args.get("bytes");
    for way in &mut ways {
        way.send(length);
    }
    for way in &mut ways {
        way.receive();
    }
}

/// Both ends must be readable exactly as said; one that should be readable is waited for.
fn check_readiness(near: &TcpStream, far: &TcpStream, readable: [bool; 2]) {
    let mut fds = [near, far].map(|end| sock::pollfd(end.as_raw_fd(), libc::POLLIN));
    let timeout = if readable.contains(&true) { -1 } else { 0 };
    sock::poll(&mut fds, timeout).expect("poll");
    assert_eq!(fds.map(|entry| entry.revents != 0), readable, "readable");
}
