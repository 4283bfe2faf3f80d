//! Who takes part: servers and clients that check, real servers beside them, each with settings drawn anew whenever
//! it starts.

use std::fs;
use std::path::Path;

use super::board::now;
use super::scene::Scene;
use super::visit::Door;
use crate::ports;
use crate::program::{Running, built};
use crate::rng::Rng;

/// Kind, style, and whether it may be killed: who may not shows at the end whether anything is left behind in it.
const SERVERS: [(&str, &str, bool); 12] = [
    ("talk", "threads", false),
    ("talk", "epoll", false),
    ("talk", "threads", true),
    ("talk", "epoll", true),
    ("talk", "edge", true),
    ("talk", "fork", true),
    ("talk", "fork", true),
    ("talk", "pass", true),
    ("redis", "", false),
    ("redis", "", true),
    ("memcached", "", true),
    ("nginx", "", true),
];
const CLIENTS: usize = 6;
/// Every third client goes through exec.
const EXEC: usize = 3;
const MOST_VISITS: usize = 150;
/// One of so many clients runs without ulsock.
const PLAIN: usize = 12;
/// Each setting is set in one of so many programs.
const RARELY: usize = 5;
const SETTINGS: [(&str, &[&str]); 7] = [
    ("ULSOCK_UPGRADE_AFTER", &["0", "1", "3", "100"]),
    ("ULSOCK_CHAOS", &["5", "50"]),
    ("ULSOCK_GUARD", &["0", "eager"]),
    ("ULSOCK_RING", &["16384", "65536", "1048576"]),
    ("ULSOCK_PROFILE", &["latency", "throughput", "frugal"]),
    ("ULSOCK_SPIN_US", &["0", "20"]),
    ("ULSOCK_UNIX", &["0"]),
];

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Checks; its style.
    Server(&'static str),
    /// A real program.
    Real(&'static str),
    /// Checks; whether it goes through exec.
    Client(bool),
}

/// A program that takes part, and its successors when it has ended.
pub struct Member {
    /// What it is.
    pub part: Part,
    /// Whether it may be killed.
    pub mortal: bool,
    /// When it was last started.
    pub began: u64,
    number: usize,
    port: u16,
    starts: u64,
    running: Option<Running>,
}

impl Member {
    fn new(number: usize, part: Part, mortal: bool) -> Self {
        Self {
            part,
            mortal,
            began: 0,
            number,
            port: ports::free(),
            starts: 0,
            running: None,
        }
    }

    /// All that take part.
    pub fn all() -> Vec<Self> {
        let servers = SERVERS.map(|(kind, style, mortal)| match kind {
            "talk" => (Part::Server(style), mortal),
            real => (Part::Real(real), mortal),
        });
        let clients = (0..CLIENTS).map(|number| (Part::Client(number % EXEC == 0), true));
        let parts = servers.into_iter().chain(clients);
        parts
            .enumerate()
            .map(|(number, (part, mortal))| Self::new(number, part, mortal))
            .collect()
    }

    /// Whether it is a client.
    pub fn is_client(&self) -> bool {
        matches!(self.part, Part::Client(_))
    }

    /// For people.
    pub fn name(&self) -> String {
        let (kind, style) = match self.part {
            Part::Server(style) => ("server", style),
            Part::Real(name) => ("real", name),
            Part::Client(true) => ("client", "exec"),
            Part::Client(false) => ("client", "threads"),
        };
        format!("{:02}-{kind}-{style}", self.number)
    }

    /// Its process; the last one, if it has ended.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().map_or(0, Running::pid)
    }

    /// The processes of its group that live.
    pub fn pids(&self) -> Vec<u32> {
        group(self.pid())
    }

    /// How it ended, if it has.
    pub fn end(&mut self) -> bool {
        self.running.as_mut().is_none_or(Running::has_ended)
    }

    /// Its status and output; the processes that it has forked go on.
    pub fn bury(&mut self) -> (bool, String) {
        let Some(running) = self.running.take() else {
            return (true, String::new());
        };
        let mut running = std::mem::ManuallyDrop::new(running);
        let good = running.status().is_some_and(|status| status.success());
        (good, running.errors())
    }

    /// Real servers end by a signal; the others read the board.
    pub fn ask_to_end(&self) {
        if let (Part::Real(_), Some(running)) = (self.part, &self.running) {
            running.signal(libc::SIGTERM);
        }
    }

    fn socket(&self, scene: &Scene) -> String {
        scene
            .path(&format!("s{}", self.number))
            .display()
            .to_string()
    }

    fn doors(&self, scene: &Scene) -> Vec<Door> {
        let (kind, addresses) = match self.part {
            Part::Client(_) => return Vec::new(),
            Part::Server(_) => ("talk", vec![self.port.to_string(), self.socket(scene)]),
            Part::Real("redis") => ("redis", vec![self.port.to_string(), self.socket(scene)]),
            Part::Real(name) => (name, vec![self.port.to_string()]),
        };
        let door = |address| Door {
            server: self.number as u64,
            kind: kind.to_owned(),
            address,
        };
        addresses.into_iter().map(door).collect()
    }

    /// Starts it, or its successor; `doors` is where clients call.
    pub fn start(&mut self, scene: &Scene, seed: u64, doors: &str) {
        self.starts += 1;
        self.began = now();
        let mut rng = Rng::new(seed ^ self.starts << 20, self.number as u64);
        let plain = self.is_client() && rng.below(PLAIN) == 0;
        let settings = draw(&mut rng);
        let settings = (!plain).then_some(settings.as_slice());
        let board = scene.path("board");
        let board = board.display();
        let (path, words) = match self.part {
            Part::Server(style) => {
                let (port, path) = (self.port, self.socket(scene));
                let words = format!("serve style={style} port={port} path={path} board={board}");
                (built("chaos"), words)
            }
            Part::Client(exec) => {
                let (seed, visits) = (rng.bits() >> 1, rng.size(MOST_VISITS));
                let words = format!(
                    "visit seed={seed} visits={visits} exec={exec} doors={doors} board={board}"
                );
                (built("chaos"), words)
            }
            Part::Real(name) => self.real(name, scene),
        };
        let program = scene.program(&path, &self.name(), settings);
        self.running = Some(program.args(&words).start());
    }

    fn real(&self, name: &str, scene: &Scene) -> (std::path::PathBuf, String) {
        let (port, path) = (self.port, self.socket(scene));
        let (program, words) = match name {
            "redis" => (
                "/usr/bin/redis-server",
                format!(
                    "--port {port} --bind 127.0.0.1 --unixsocket {path} --appendonly no --daemonize no --save"
                ),
            ),
            "memcached" => (
                "/usr/bin/memcached",
                format!("-p {port} -U 0 -l 127.0.0.1 -u root -m 256"),
            ),
            _ => {
                let file = scene.path("nginx.conf");
                fs::write(&file, nginx(scene, port)).expect("nginx.conf");
                ("/usr/sbin/nginx", format!("-c {}", file.display()))
            }
        };
        (Path::new(program).to_owned(), words)
    }

    /// Whether it takes calls.
    pub fn listens(&self) -> bool {
        self.is_client() || crate::procfs::listens(self.pid(), self.port)
    }
}

/// The doors of all servers, for the command line of a client.
pub fn doors(members: &[Member], scene: &Scene) -> String {
    let doors = members.iter().flat_map(|member| member.doors(scene));
    doors.map(|door| door.text()).collect::<Vec<_>>().join(";")
}

fn draw(rng: &mut Rng) -> Vec<(String, String)> {
    let drawn = SETTINGS.iter().filter_map(|(name, values)| {
        let value = rng.pick(values);
        (rng.below(RARELY) == 0).then(|| ((*name).to_owned(), value.to_owned()))
    });
    drawn.collect()
}

fn nginx(scene: &Scene, port: u16) -> String {
    let folder = scene.path("");
    let folder = folder.display();
    format!(
        "daemon off; user root; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; keepalive_requests 100000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n\
         fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n\
         server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
}

/// The living processes of process group `group`.
fn group(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(')') else {
            return false;
        };
        let mut words = rest.split_whitespace();
        !matches!(words.next(), Some("Z" | "X")) && words.nth(1) == Some(&group.to_string())
    })
    .collect()
}
