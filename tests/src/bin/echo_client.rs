//! The client of the echo servers: `echo_client port=P conns=N rounds=R [max=BYTES] [fixed=BYTES]
//! [seed=S] [pieces=N] [rest_ms=N]`. One blocking thread per connection, each checks that what it sent comes back.
//! Who sends a message in pieces leaves it to Nagle's algorithm when they go. Each rests when it is half through.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tests::args::Args;
use tests::echo::Caller;
use tests::rng::Rng;

fn main() {
    let args = Args::from_env();
    let rounds: usize = args.get("rounds");
    let fixed: usize = args.get_or("fixed", 0);
    let max: usize = args.get_or("max", 64 * 1024);
    let seed: u64 = args.get_or("seed", 1);
    let pieces: usize = args.get_or("pieces", 1);
    let rest = Duration::from_millis(args.get_or("rest_ms", 0));
    thread::scope(|scope| {
        for number in 0..args.get::<u64>("conns") {
            let address = args.address();
            scope.spawn(move || {
                let stream = TcpStream::connect(address).expect("connect");
                stream.set_nodelay(pieces == 1).expect("TCP_NODELAY");
                let mut caller = Caller::new(&stream, number as u8).in_pieces(pieces);
                let mut rng = Rng::new(seed, number);
                let mut go = |rounds| match fixed {
                    0 => caller.round_trips(rounds, max, &mut rng),
                    _ => (0..rounds).try_for_each(|_| caller.round_trip(fixed)),
                };
                go(rounds / 2).expect("round trip");
                thread::sleep(rest);
                go(rounds - rounds / 2).expect("round trip");
            });
        }
    });
}
