//! An echo server with one blocking thread per connection: `echo_threads port=P conns=N`. It ends
//! when it has served N connections.

use std::thread;

use tests::args::Args;
use tests::{echo, sock};

fn main() {
    let args = Args::from_env();
    let listener = sock::listen(args.address()).expect("bind");
    let threads: Vec<_> = (0..args.get::<usize>("conns"))
        .map(|_| {
            let (stream, _) = listener.accept().expect("accept");
            thread::spawn(move || echo::serve(&stream).expect("echo"))
        })
        .collect();
    for thread in threads {
        thread.join().expect("an echo thread failed");
    }
}
