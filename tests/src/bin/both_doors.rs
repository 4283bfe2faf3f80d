//! A program that is written for ulsock and preloaded, too: `both_doors port=P [rounds=R] [max=BYTES]`. It talks to an echo server
//! by streams of the standard library, which the preload library carries, and by native ones, beside each other; to itself by
//! every pair of the two; as tasks; and goes on with both in a child of fork, then in the parent. Eight connections in all.

use std::io::{Read, Write};
use std::net::{self, Shutdown, SocketAddr, ToSocketAddrs};
use std::process::{Command, exit};
use std::thread;

use native::run;
use tests::args::Args;
use tests::pattern;
use tests::rng::Rng;

struct Order {
    server: SocketAddr,
    rounds: usize,
    max: usize,
}

trait Stream: Read + Write + Send {
    fn end(&self);
}

impl Stream for net::TcpStream {
    fn end(&self) {
        self.shutdown(Shutdown::Write).expect("shutdown");
    }
}

impl Stream for native::TcpStream {
    fn end(&self) {
        self.shutdown(Shutdown::Write).expect("shutdown");
    }
}

#[derive(Clone, Copy, Debug)]
enum Door {
    Preloaded,
    Native,
}

const DOORS: [Door; 2] = [Door::Preloaded, Door::Native];

impl Door {
    fn connect(self, to: SocketAddr) -> Box<dyn Stream> {
        match self {
            Door::Preloaded => {
                let stream = net::TcpStream::connect(to).expect("connect");
                stream.set_nodelay(true).expect("TCP_NODELAY");
                Box::new(stream)
            }
            Door::Native => {
                let stream = native::TcpStream::connect(to).expect("connect");
                stream.set_nodelay(true).expect("TCP_NODELAY");
                Box::new(stream)
            }
        }
    }

    /// Where it listens, and what accepts one there.
    fn listen(self) -> (SocketAddr, Box<dyn FnOnce() -> Box<dyn Stream> + Send>) {
        let any = "127.0.0.1:0";
        match self {
            Door::Preloaded => {
                let listener = net::TcpListener::bind(any).expect("bind");
                let address = listener.local_addr().expect("an address");
                let accept = move || Box::new(listener.accept().expect("accept").0) as _;
                (address, Box::new(accept))
            }
            Door::Native => {
                let listener = native::TcpListener::bind(any).expect("bind");
                let address = listener.local_addr().expect("an address");
                let accept = move || Box::new(listener.accept().expect("accept").0) as _;
                (address, Box::new(accept))
            }
        }
    }
}

impl Order {
    /// Round trips, each byte of which is checked.
    fn talk(&self, stream: &mut dyn Stream, direction: u8) {
        let mut rng = Rng::new(7, u64::from(direction));
        let mut position = 0;
        for _ in 0..self.rounds {
            let mut piece = vec![0; rng.size(self.max)];
            pattern::fill(direction, position, &mut piece);
            stream.write_all(&piece).expect("send");
            piece.fill(0);
            stream.read_exact(&mut piece).expect("receive");
            pattern::check(direction, position, &piece).unwrap_or_else(|why| panic!("{why}"));
            position += piece.len() as u64;
        }
    }

    fn beside_each_other(&self) {
        thread::scope(|scope| {
            for (number, door) in DOORS.into_iter().enumerate() {
                scope.spawn(move || self.talk(&mut *door.connect(self.server), number as u8));
            }
        });
    }

    fn to_itself(&self) {
        for (near, far) in DOORS.iter().flat_map(|near| DOORS.map(|far| (*near, far))) {
            let (address, accept) = far.listen();
            thread::scope(|scope| {
                scope.spawn(move || echo(&mut *accept()));
                let mut stream = near.connect(address);
                self.talk(&mut *stream, 3);
                stream.end();
                let left = stream.read(&mut [0; 1]);
                assert_eq!(left.expect("the end"), 0, "{near:?} to {far:?}");
            });
        }
    }

    fn as_tasks(&self) {
        thread::scope(|scope| {
            scope.spawn(|| self.talk(&mut *Door::Preloaded.connect(self.server), 4));
            let task = async {
                let stream = native::future::TcpStream::connect(self.server).await?;
                for round in 0..self.rounds as u64 {
                    stream.write_all(&round.to_le_bytes()).await?;
                    let mut answer = [0; 8];
                    stream.read_exact(&mut answer).await?;
                    assert_eq!(answer, round.to_le_bytes());
                }
                Ok::<_, std::io::Error>(())
            };
            run::block_on(task).expect("a loop").expect("round trips");
        });
    }

    fn in_a_child(&self) {
        let mut streams = DOORS.map(|door| door.connect(self.server));
        for stream in &mut streams {
            self.talk(&mut **stream, 5);
        }
        // SAFETY: this thread is the only one of the program's, and the child uses nothing that a lock protects.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        for (stream, door) in streams.iter_mut().zip(DOORS) {
            if child == 0 {
                self.talk(&mut **stream, 6);
                self.talk(&mut *door.connect(self.server), 7);
            }
        }
        if child == 0 {
            exit(0);
        }
        let mut status = 0;
        // SAFETY: the status lives as long as the call.
        let ended = unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!((ended, status), (child, 0), "the child is content");
        for stream in &mut streams {
            self.talk(&mut **stream, 8);
        }
        // Another program has nothing of this one.
        assert!(Command::new("true").status().expect("a program").success());
        for stream in &mut streams {
            self.talk(&mut **stream, 9);
        }
    }
}

fn echo(stream: &mut dyn Stream) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer).expect("receive") {
            0 => return stream.end(),
            n => stream.write_all(&buffer[..n]).expect("send"),
        }
    }
}

fn main() {
    let args = Args::from_env();
    let mut addresses = args.address().to_socket_addrs().expect("an address");
    let order = Order {
        server: addresses.next().expect("an address"),
        rounds: args.get_or("rounds", 100),
        max: args.get_or("max", 20_000),
    };
    order.beside_each_other();
    order.to_itself();
    order.as_tasks();
    order.in_a_child();
    println!("ok");
}
