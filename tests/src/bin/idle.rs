//! Connections that do nothing: `idle port=P conns=N rounds=R wait=poll|epoll [half=1]`. After some
//! round trips on each (and with `half=1` a half-close) it prints `idle` and waits on all of them
//! until each has brought one more byte, which the test makes the server send.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;

use tests::args::Args;
use tests::sock::{self, Epoll};

fn main() {
    let args = Args::from_env();
    let streams: Vec<TcpStream> = (0..args.get::<usize>("conns"))
        .map(|_| TcpStream::connect(args.address()).expect("connect"))
        .collect();
    for round in 0..args.get::<usize>("rounds") {
        for stream in &streams {
            round_trip(stream, round as u8);
        }
    }
    if args.get_or("half", 0) != 0 {
        for stream in &streams {
            stream.shutdown(Shutdown::Write).expect("shutdown");
        }
    }
    println!("idle");
    match args.get::<String>("wait").as_str() {
        "poll" => wait_by_poll(&streams),
        "epoll" => wait_by_epoll(&streams),
        other => panic!("wait=poll or wait=epoll, not {other:?}"),
    }
}

fn round_trip(mut stream: &TcpStream, value: u8) {
    let mut message = [value; 32];
    stream.write_all(&message).expect("send");
    stream.read_exact(&mut message).expect("receive");
    assert_eq!(message, [value; 32]);
}

fn take_byte(stream: &TcpStream) {
    let mut byte = [0; 2];
    let length = sock::recv(stream.as_raw_fd(), &mut byte, libc::MSG_DONTWAIT).expect("receive");
    assert_eq!(&byte[..length], b"!");
}

fn wait_by_poll(streams: &[TcpStream]) {
    let mut waiting: Vec<&TcpStream> = streams.iter().collect();
    while !waiting.is_empty() {
        let mut fds: Vec<_> = waiting
            .iter()
            .map(|stream| sock::pollfd(stream.as_raw_fd(), libc::POLLIN))
            .collect();
        sock::poll(&mut fds, -1).expect("poll");
        let mut entries = fds.iter();
        waiting.retain(|stream| {
            let ready = entries.next().is_some_and(|entry| entry.revents != 0);
            if ready {
                take_byte(stream);
            }
            !ready
        });
    }
}

fn wait_by_epoll(streams: &[TcpStream]) {
    let epoll = Epoll::new().expect("epoll");
    for (number, stream) in streams.iter().enumerate() {
        epoll
            .add(stream.as_raw_fd(), libc::EPOLLIN, number as u64)
            .expect("add");
    }
    let mut waiting = streams.len();
    while waiting > 0 {
        for (_, number) in epoll.wait(-1).expect("wait") {
            take_byte(&streams[number as usize]);
            waiting -= 1;
        }
    }
}
