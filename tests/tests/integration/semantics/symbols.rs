//! One handled and one bypassed test for each symbol of `preload/symbols.txt`: the cases of the
//! program `symbols`, with ulsock and without, must print the same. On an accelerated connection they
//! also check what the table says of the symbol; elsewhere ulsock must not be noticed.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::{sock, wait};

/// While it is there, packets have stamps. The kernel begins with it some time after the first socket has asked, by a work
/// queue (`net_enable_timestamp` in net/core/dev.c), and a case would meet that moment or not.
fn stamped() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    let mut near = TcpStream::connect(address).expect("a connection");
    let far = listener.accept().expect("its other end").0;
    sock::ask_for_stamps(far.as_raw_fd()).expect("SO_TIMESTAMPNS");
    wait::until("packets have stamps", || {
        near.write_all(b"x").expect("a byte is sent");
        sock::recv_stamped(far.as_raw_fd()).expect("it comes")
    });
    [near, far]
}

/// Every case on descriptors of this kind.
fn run(kind: &str) {
    let _stamped = stamped();
    let output = |ends| {
        let place = Place::new(ends).eager().with("ULSOCK_EXCLUDE", "127.0.0.2");
        let program = place.own(Side::Server, "symbols");
        let output = program.args(&format!("kind={kind}")).run();
        place.check_quiet();
        output
    };
    let (plain, hooked) = (output(Ends::Kernel), output(Ends::both()));
    for (line, (plain, hooked)) in plain.lines().zip(hooked.lines()).enumerate() {
        assert_eq!(hooked, plain, "line {line} of kind={kind}");
    }
    assert_eq!(hooked.len(), plain.len());
}

#[test]
fn on_an_accelerated_connection() {
    run("tcp");
}

#[test]
fn on_a_kernel_connection() {
    run("kernel");
}

#[test]
fn on_a_unix_socket() {
    run("unix");
}

#[test]
fn on_a_pipe() {
    run("pipe");
}

#[test]
fn on_a_file() {
    run("file");
}

#[test]
fn on_numbers_that_are_not_open() {
    run("bad");
}
