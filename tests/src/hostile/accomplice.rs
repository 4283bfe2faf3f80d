//! A peer that runs the product itself, and whose shared memory is written over from outside: so every word can have
//! any value in any state of the protocol, also in those that a peer made by hand never reaches.
//!
//! What is written reaches both ends, so the accomplice is a second victim: it may lose its connections, not its life.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::memory::{self, CONFIRMED, CONNS, OFFERER, Words};
use super::scene::Scene;
use super::unix;
use crate::args::Args;
use crate::echo;
use crate::rng::Rng;

/// Connections at a time.
const CONNECTIONS: usize = 3;
/// How long it may take until a connection has rings, and how often it is started anew before that is given up.
const PATIENCE: Duration = Duration::from_millis(400);
const STARTS: usize = 8;

/// The program: `accomplice port=P` has connections to the victim, `accomplice` lets it call.
pub fn main(args: &Args) {
    let talk: Box<dyn Fn() + Sync> = match args.find::<u16>("port") {
        Some(port) => Box::new(move || call(port)),
        None => {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
            println!("{}", listener.local_addr().expect("an address").port());
            Box::new(move || answer(&listener))
        }
    };
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                loop {
                    talk();
                }
            });
        }
    });
}

/// One connection after the other, each until it breaks. Wrong bytes are no news to who lies itself.
fn call(port: u16) {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return thread::sleep(Duration::from_millis(1));
    };
    let mut rng = Rng::new(1, 1);
    let mut round = || {
        let mut message = vec![1; rng.size(100_000)];
        (&stream).write_all(&message)?;
        (&stream).read_exact(&mut message)
    };
    while round().is_ok() {}
}

fn answer(listener: &TcpListener) {
    if let Ok((stream, _)) = listener.accept() {
        let _ = echo::serve(&stream);
    }
}

pub struct Accomplice<'a> {
    scene: &'a Scene,
    calls: bool,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl<'a> Accomplice<'a> {
    /// One that calls the victim.
    pub fn calling(scene: &'a Scene) -> Accomplice<'a> {
        Accomplice::start(scene, true)
    }

    /// One that the victim calls, as often as it has connections.
    pub fn called(scene: &'a Scene) -> Accomplice<'a> {
        Accomplice::start(scene, false)
    }

    fn start(scene: &'a Scene, calls: bool) -> Accomplice<'a> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("accomplice");
        if calls {
            command.arg(format!("port={}", scene.port));
        }
        command.env("LD_PRELOAD", &scene.library);
        command.env("ULSOCK_RUN_DIR", &scene.run_dir);
        command.env("ULSOCK_UPGRADE_AFTER", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.uid(scene.uid).gid(scene.uid);
        let mut child = command.spawn().expect("the accomplice starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut accomplice = Accomplice {
            scene,
            calls,
            child,
            output,
        };
        if !calls {
            accomplice.ask_for_calls();
        }
        accomplice
    }

    fn ask_for_calls(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its port");
        let port = line.trim().parse().expect("a port");
        (0..CONNECTIONS).for_each(|_| self.scene.ask_for_call(port));
    }

    /// All its connections may be stuck by now: another one takes its place.
    fn start_anew(&mut self) -> Result<(), &'static str> {
        if self.killed_by().is_some() {
            return Err("the accomplice was killed by what is in its memory");
        }
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
        *self = Accomplice::start(self.scene, self.calls);
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The segments that it has mapped now.
    pub fn segments(&self) -> Vec<Words> {
        let size = memory::segment_size(CONNS);
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        let segments = maps.lines().filter(|line| line.contains("/memfd:ulsock"));
        segments
            .filter_map(|line| {
                let (first, rest) = line.split_once('-')?;
                let (last, _) = rest.split_once(' ')?;
                let number = |text| u64::from_str_radix(text, 16).ok();
                let (first, last) = (number(first)?, number(last)?);
                let whole = last - first == size;
                whole.then(|| Words::within(self.pid(), first)).flatten()
            })
            .collect()
    }

    /// A segment and its connections that have rings now, once there are some.
    pub fn shared(&mut self) -> Result<(Words, Vec<u32>), &'static str> {
        for _ in 0..STARTS {
            let end = Instant::now() + PATIENCE;
            while Instant::now() < end {
                if let Some(live) = self.segments().into_iter().find_map(live) {
                    return Ok(live);
                }
                thread::sleep(Duration::from_millis(1));
            }
            self.start_anew()?;
        }
        Err("no connection has rings")
    }

    pub fn stop(&self) {
        unix::signal(self.pid(), libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        unix::signal(self.pid(), libc::SIGCONT);
    }

    /// It keeps what it has, and does nothing any more. Whether it has lived so long.
    pub fn hold(mut self) -> Result<(), &'static str> {
        self.stop();
        let killed = self.killed_by();
        std::mem::forget(self.child);
        match killed {
            None => Ok(()),
            Some(_) => Err("the accomplice was killed by what is in its memory"),
        }
    }

    /// The signal that has killed it, if one has.
    fn killed_by(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("wait")?;
        status.signal()
    }
}

/// Those of its connections that have rings now.
fn live(words: Words) -> Option<(Words, Vec<u32>)> {
    let is_live = |conn: &u32| words.stage(*conn, OFFERER) == CONFIRMED;
    let live: Vec<u32> = (0..CONNS).filter(is_live).collect();
    (!live.is_empty()).then_some((words, live))
}
