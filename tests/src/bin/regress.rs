//! Results that once depended on the carrier: `regress CASE` runs one of them on a connection that
//! it has with itself, and prints what it saw. The test runs it on the kernel and on rings.

use std::fmt::Debug;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use tests::args::Args;
use tests::sock;

/// What is done with the two ends.
type Case = fn(TcpStream, TcpStream);

const CASES: &[(&str, Case)] = &[
    ("send_after_close", send_after_close),
    ("close_after_shutdown", close_after_shutdown),
    ("send_buffer", send_buffer),
];

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

/// Who has read all that the peer sent before its shutdown closes without a reset.
fn close_after_shutdown(near: TcpStream, far: TcpStream) {
    talk(&far, &near);
    sock::send(near.as_raw_fd(), b"hello", 0).expect("send");
    near.shutdown(Shutdown::Write).expect("shutdown");
    let mut bytes = [0; 5];
    show("far", sock::recv(far.as_raw_fd(), &mut bytes, 0));
    sock::send(far.as_raw_fd(), b"world", 0).expect("send");
    drop(far);
    for _ in 0..2 {
        show("near", sock::recv(near.as_raw_fd(), &mut bytes, 0));
    }
}

/// A program that has set small buffers is not taken megabytes from, and one that has not is.
fn send_buffer(near: TcpStream, far: TcpStream) {
    talk(&near, &far);
    talk(&far, &near);
    set_buffer(&near, libc::SO_SNDBUF);
    set_buffer(&far, libc::SO_RCVBUF);
    println!("small: {}", absorbed(&near) < 100_000);
    println!("usual: {}", absorbed(&far) > 2_000_000);
}

fn set_buffer(end: &TcpStream, option: libc::c_int) {
    let bytes: libc::c_int = 4096;
    // SAFETY: the option takes an int, whose size is told.
    let result = unsafe {
        libc::setsockopt(
            end.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "setsockopt");
}

/// Bytes that are taken while nobody reads. The kernel moves them on in the background: it is asked
/// until it has taken none for a while.
fn absorbed(end: &TcpStream) -> usize {
    let piece = [0; 10_000];
    let (mut total, mut refused) = (0, 0);
    while refused < 20 {
        match sock::send(end.as_raw_fd(), &piece, libc::MSG_DONTWAIT) {
            Ok(n) => (total, refused) = (total + n, 0),
            Err(_) => {
                refused += 1;
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    total
}
