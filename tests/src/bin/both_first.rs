//! Two programs that each send before either receives: `both_first listen|connect port=P
//! bytes=N times=K`. Kernel TCP absorbs some 4 MB with nobody reading, so this must not hang.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use tests::args::Args;
use tests::echo::{self, Caller};
use tests::pattern;

const WARM_UP: usize = 50;
const MESSAGE: usize = 32;

fn main() {
    let args = Args::from_env();
    let listens = args.role() == "listen";
    let stream = if listens {
        let listener = TcpListener::bind(args.address()).expect("bind");
        listener.accept().expect("accept").0
    } else {
        TcpStream::connect(args.address()).expect("connect")
    };
    warm_up(&stream, listens);
    let length = args.get("bytes");
    for time in 0..args.get::<u64>("times") {
        exchange(&stream, u8::from(listens), time * length as u64, length);
    }
}

/// Some round trips first, so that the connection has left the kernel when the flood comes.
fn warm_up(stream: &TcpStream, listens: bool) {
    let mut caller = Caller::new(stream, 9);
    for _ in 0..WARM_UP {
        if listens {
            echo::serve_one(stream, MESSAGE).expect("echo");
        } else {
            caller.round_trip(MESSAGE).expect("round trip");
        }
    }
}

fn exchange(mut stream: &TcpStream, direction: u8, position: u64, length: usize) {
    let mut buffer = vec![0; length];
    pattern::fill(direction, position, &mut buffer);
    stream.write_all(&buffer).expect("send");
    stream.read_exact(&mut buffer).expect("receive");
    pattern::check(1 - direction, position, &buffer).unwrap_or_else(|wrong| panic!("{wrong}"));
}
