//! Bursts on an echo connection, and nothing in between: `burst port=P bytes=N`. Each line on stdin
//! makes one: N bytes are sent, and read only a while later, so that they pile up. Then it prints
//! `idle` and polls its stdin and the connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use tests::args::Args;
use tests::echo::Caller;
use tests::rng::Rng;
use tests::{pattern, sock};

/// Enough for the rings to fill and grow.
const LATE: Duration = Duration::from_millis(50);

fn main() {
    let args = Args::from_env();
    let stream = TcpStream::connect(args.address()).expect("connect");
    Caller::new(&stream, 1)
        .round_trips(30, 64, &mut Rng::new(1, 1))
        .expect("round trips");
    println!("ready");
    let mut fds = [0, stream.as_raw_fd()].map(|fd| sock::pollfd(fd, libc::POLLIN));
    loop {
        sock::poll(&mut fds, -1).expect("poll");
        if sock::read(0, &mut [0]).expect("stdin") == 0 {
            return;
        }
        burst(&stream, args.get("bytes"));
        println!("idle");
    }
}

fn burst(stream: &TcpStream, bytes: usize) {
    let mut sent = vec![0; bytes];
    pattern::fill(2, 0, &mut sent);
    let (sent, mut received) = (&sent, vec![0; bytes]);
    thread::scope(|scope| {
        let [mut sender, mut receiver] = [stream; 2];
        scope.spawn(move || sender.write_all(sent).expect("send"));
        thread::sleep(LATE);
        receiver.read_exact(&mut received).expect("receive");
    });
    assert!(*sent == received, "an echo of other bytes");
}
