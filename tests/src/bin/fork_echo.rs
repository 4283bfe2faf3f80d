//! An echo server that forks per connection: `fork_echo port=P conns=N`. The parent accepts and
//! closes, the child talks.

use std::net::TcpListener;

use tests::args::Args;
use tests::echo;
use tests::sock::{self, Forked};

fn main() {
    let args = Args::from_env();
    let listener = TcpListener::bind(args.address()).expect("bind");
    let children: Vec<i32> = (0..args.get::<usize>("conns"))
        .filter_map(|_| {
            let (stream, _) = listener.accept().expect("accept");
            match sock::fork().expect("fork") {
                Forked::Parent(pid) => Some(pid),
                Forked::Child => {
                    echo::serve(&stream).expect("echo");
                    drop(stream);
                    std::process::exit(0)
                }
            }
        })
        .collect();
    for pid in children {
        assert_eq!(sock::wait_child(pid).expect("wait"), 0, "child {pid}");
    }
}
