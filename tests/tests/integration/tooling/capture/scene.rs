//! The programs that are captured, and the captures.

use std::path::PathBuf;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::program::{Program, Running};
use tests::{ports, wait};

/// Answers each message of 16 bytes until the stream ends; or reads all, after "all".
const SERVER: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family); s.bind((sys.argv[1], int(sys.argv[2]))); s.listen()
c, _ = s.accept()
while (m := c.recv(16, socket.MSG_WAITALL)):
    if m != b'all' + b'.' * 13: c.sendall(m); continue
    n = 0
    while (m := c.recv(1 << 20)): n += len(m)
    print('got', n, flush=True)
";

/// Small messages until it is told to go on; then a file, if it is told one.
const CLIENT: &str = "
import select, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family); s.connect((sys.argv[1], int(sys.argv[2])))
n = 0
while True:
    while not select.select([sys.stdin], [], [], 0.005)[0]:
        s.sendall(b'%015d\\n' % n); assert len(s.recv(16, socket.MSG_WAITALL)) == 16; n += 1
    word = sys.stdin.readline().strip()
    if word == 'count': print('counted', n, flush=True); continue
    if word != 'end': s.sendall(b'all' + b'.' * 13); s.sendall(open(word, 'rb').read())
    break
print('exchanged', n, flush=True)
";

/// A subcommand that looks at the programs of the place.
pub fn command(place: &Place, words: &str) -> Program {
    let program = place.own(Side::Client, "ulsock").without("LD_PRELOAD");
    program.args(words)
}

/// A capture into a file of the place.
pub fn capture(place: &Place, words: &str) -> (Running, PathBuf) {
    let file = place.folder().join("capture.pcapng");
    // Of an earlier one.
    let _ = std::fs::remove_file(&file);
    let capture = command(place, &format!("capture {words} -w")).arg(&file);
    (capture.start(), file)
}

/// A client that speaks with its server all the time.
pub struct Pair {
    pub server: Running,
    pub client: Running,
    pub port: u16,
}

impl Pair {
    pub fn start(place: &Place, host: &str) -> Pair {
        let port = ports::free();
        let python = |program: Program, script: &str| {
            let program = program.arg("-c").arg(script);
            program.args(&format!("{host} {port}"))
        };
        let server = python(place.server("python3"), SERVER).start();
        let server = server.listening(port);
        let client = python(place.client("python3"), CLIENT).piped().start();
        Pair {
            server,
            client,
            port,
        }
    }

    /// How many messages there have been. What it prints comes in any pieces: only whole lines count.
    fn count(&mut self) -> usize {
        let lines = |it: &Running| it.output().matches('\n').count();
        let before = lines(&self.client);
        self.client.tell("count\n");
        self.client.until("it counts", |it| lines(it) > before);
        let output = self.client.output();
        let last = output.lines().nth(before);
        let last = last.and_then(|it| it.strip_prefix("counted "));
        last.and_then(|it| it.parse().ok()).expect("a count")
    }

    /// Some messages go to and fro from now on. They need time between two questions.
    pub fn goes_on(&mut self) {
        let enough = self.count() + 3;
        wait::until("messages go to and fro", || self.count() >= enough);
    }

    pub fn end(mut self) {
        self.client.tell("end\n");
        self.client.succeed();
        self.server.succeed();
    }
}

/// Programs that stay on their rings.
pub fn place() -> Place {
    Place::new(Ends::both()).at_once().with("ULSOCK_GUARD", "0")
}

/// redis-cli that is told its commands, with a capture that has seen both directions.
pub struct Redis {
    pub server: Running,
    pub cli: Running,
    pub port: u16,
}

impl Redis {
    pub fn start(place: &Place) -> Redis {
        let port = ports::free();
        let words = format!(
            "--port {port} --appendonly no --dir {} --save",
            place.folder().display()
        );
        let server = place
            .server("redis-server")
            .args(&words)
            .arg("")
            .start()
            .listening(port);
        let cli = place.client("redis-cli").args(&format!("-p {port}"));
        let cli = cli.piped().start();
        Redis { server, cli, port }
    }

    pub fn say(&mut self, command: &str, answer: &str) {
        self.cli.tell(command);
        self.cli.prints(answer);
    }

    pub fn end(mut self) {
        self.cli.tell("shutdown nosave\n");
        self.server.succeed();
    }
}
