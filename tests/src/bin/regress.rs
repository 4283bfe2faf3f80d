//! Results that once depended on the carrier: `regress CASE` runs one of them on a connection that
//! it has with itself, and prints what it saw. The test runs it on the kernel and on rings.

use std::fmt::Debug;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use tests::args::Args;
use tests::sock;

/// What is done with the two ends.
type Case = fn(TcpStream, TcpStream);

const CASES: &[(&str, Case)] = &[("send_after_close", send_after_close)];

fn main() {
    let name = Args::from_env().role().to_owned();
    let case = CASES.iter().find(|(known, _)| *known == name);
    let (_, case) = case.unwrap_or_else(|| panic!("no case {name:?}"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connect");
    let (far, _) = listener.accept().expect("accept");
    case(near, far);
}

fn show(what: &str, result: io::Result<impl Debug>) {
    match result {
        Ok(value) => println!("{what}: {value:?}"),
        Err(error) => println!("{what}: error {:?}", error.kind()),
    }
}

/// Sends one way and receives: the direction is then on its ring, if there is one.
fn talk(from: &TcpStream, to: &TcpStream) {
    sock::send(from.as_raw_fd(), b"hello", 0).expect("send");
    let mut bytes = [0; 5];
    sock::recv(to.as_raw_fd(), &mut bytes, libc::MSG_WAITALL).expect("receive");
}

/// Waits for an error or hang-up, a second long.
fn events_of(fd: RawFd) -> io::Result<i16> {
    let mut fds = [sock::pollfd(fd, 0)];
    sock::poll(&mut fds, 1000).map(|_| fds[0].revents)
}

/// The first send after the peer's close is taken and draws a reset, which the second must see.
fn send_after_close(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    talk(&far, &near);
    drop(far);
    let fd = near.as_raw_fd();
    show("first", sock::send(fd, b"x", libc::MSG_NOSIGNAL));
    show("events", events_of(fd));
    show("second", sock::send(fd, b"x", libc::MSG_NOSIGNAL));
}
