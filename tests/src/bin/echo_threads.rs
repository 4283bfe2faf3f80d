//! An echo server with one blocking thread per connection: `echo_threads port=P conns=N [lazy=1]`. A
//! lazy one leaves it to Nagle's algorithm when its answers go. It ends when it has served N connections. The last one is served by the first thread, so that with one
//! connection there is one thread.

use std::thread;

use tests::args::Args;
use tests::{echo, sock};

fn main() {
    let args = Args::from_env();
    let listener = sock::listen(args.address()).expect("bind");
    let lazy = args.get_or("lazy", 0) == 1;
    let serve = move |stream| match lazy {
        true => echo::serve_lazily(&stream).expect("echo"),
        false => echo::serve(&stream).expect("echo"),
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
