//! Many connections one after the other: `churn port=P short=N long=N warm=N`. A short one carries
//! one message, a long one thirty. Prints its fds and memory after the warm-up and at the end, for
//! the test to compare. The server must listen on 0.0.0.0.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use tests::args::Args;
use tests::procfs;

const SHORT_MESSAGES: usize = 1;
const LONG_MESSAGES: usize = 30;
/// The connections go round over as many addresses, so that ports in TIME_WAIT do not run out.
const ADDRESSES: usize = 8;

fn main() {
    let args = Args::from_env();
    let port = args.get("port");
    let warm = args.get("warm");
    connections(port, warm, SHORT_MESSAGES);
    connections(port, warm, LONG_MESSAGES);
    print_usage("start");
    connections(port, args.get("short"), SHORT_MESSAGES);
    connections(port, args.get("long"), LONG_MESSAGES);
    print_usage("end");
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

fn connections(port: u16, number: usize, messages: usize) {
    for turn in 0..number {
        let address = Ipv4Addr::new(127, 0, 0, 1 + (turn % ADDRESSES) as u8);
        let mut stream = TcpStream::connect((address, port)).expect("connect");
        for message in 0..messages {
            let sent = [(turn ^ message) as u8; 48];
            let mut received = [0; 48];
            stream.write_all(&sent).expect("send");
            stream.read_exact(&mut received).expect("receive");
            assert_eq!(sent, received, "connection {turn}, message {message}");
        }
    }
}
