//! An echo server with one blocking thread per connection: `echo_threads port=P conns=N [whole=LENGTH]`. With
//! a length it waits for whole messages, answers in two sends, and leaves it to Nagle's algorithm when they
//! go. It ends when it has served N connections. The last one is served by the first thread, so that with
//! one connection there is one thread.

use std::thread;

use tests::args::Args;
use tests::{echo, sock};

fn main() {
    let args = Args::from_env();
    let listener = sock::listen(args.address()).expect("bind");
    let whole: usize = args.get_or("whole", 0);
    let serve = move |stream| match whole {
        0 => echo::serve(&stream).expect("echo"),
        length => echo::serve_whole(&stream, length).expect("echo"),
    };
    let accept = || listener.accept().expect("accept").0;
    let threads: Vec<_> = (1..args.get::<usize>("conns"))
        .map(|_| {
            let stream = accept();
            thread::spawn(move || serve(stream))
        })
        .collect();
    serve(accept());
    for thread in threads {
        thread.join().expect("an echo thread failed");
    }
}
