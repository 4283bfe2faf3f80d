//! A victim, its honest clients, and what an attack may cost them.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::cases::Case;
use super::scene::{CALL, DONE, FAILED};
use crate::ends::{Ends, Side};
use crate::place::Place;
use crate::ports;
use crate::procfs;
use crate::program::{Running, built};

/// How the victim waits for its connections.
pub const WAITS: [&str; 3] = ["epoll", "poll", "threads"];

const HONEST: usize = 3;
/// Honest clients keep at least this part of the rate that they have undisturbed: the attackers take CPU time too.
const LEAST_RATE: f64 = 0.05;
/// A rate is that of so long, at least.
const LEAST: Duration = Duration::from_millis(100);
/// No round trip of theirs takes longer.
const LONGEST: Duration = Duration::from_millis(1500);
/// CPU time of a victim that nobody asks for anything, as a part of the time that passes.
const IDLE: f64 = 0.10;
/// For how long that is looked at, and how often it may be more: somebody may have some work left.
const LOOK: Duration = Duration::from_millis(150);
const LOOKS: usize = 12;
/// How long the victim may take to let go of what an attacker had.
const LET_GO: Duration = Duration::from_secs(5);
/// What may be left of the attackers that were.
const LEFT: Usage = Usage {
    fds: 24,
    threads: 4,
    resident: 6 * 1024,
    mapped: 3 * 1024 * 1024,
};
/// What an attacker may have of them while it lives, its connections among them.
const HELD: Usage = Usage {
    fds: 200,
    threads: 32,
    resident: 160 * 1024,
    mapped: 40 * 1024 * 1024,
};
/// An attack takes no longer.
const LIMIT: u64 = 40;

/// What a process has of what is not without end; memory in KiB.
#[derive(Clone, Copy, Debug)]
struct Usage {
    fds: usize,
    threads: usize,
    resident: u64,
    mapped: u64,
}

impl Usage {
    fn of(pid: u32) -> Usage {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            word.and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        Usage {
            fds: procfs::fds(pid),
            threads: number("Threads:") as usize,
            resident: number("VmRSS:"),
            mapped: number("VmSize:"),
        }
    }

    /// No more than before, and what may come on top of that.
    fn is_within(&self, before: &Usage, more: &Usage) -> bool {
        self.fds <= before.fds + more.fds
            && self.threads <= before.threads + more.threads
            && self.resident <= before.resident + more.resident
            && self.mapped <= before.mapped + more.mapped
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { fds, threads, .. } = self;
        let [resident, mapped] = [self.resident, self.mapped].map(|kib| kib / 1024);
        write!(
            f,
            "{fds} descriptors, {threads} threads, {resident} of {mapped} MiB"
        )
    }
}

/// What honest clients got.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// Round trips in a millisecond.
    rate: f64,
    /// The longest of them.
    longest: Duration,
    /// How late the machine was meanwhile, for whoever slept.
    late: Duration,
}

/// What an attack has cost, or how it succeeded.
pub type Verdict = Result<Cost, String>;

/// What an attack has cost, if no more than it may.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    service: Service,
    /// What the victim had while the attacker lived.
    held: Usage,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { rate, longest, .. } = self.service;
        let held = self.held;
        write!(f, "{rate:.1} round trips/ms, longest {longest:?}; {held}")
    }
}

/// The victim and its honest clients. Programs go before the place that they are in.
pub struct World {
    victim: Running,
    honest: Running,
    heard: usize,
    undisturbed: f64,
    before: Usage,
    port: u16,
    library: PathBuf,
    place: Place,
}

impl World {
    /// `wait` is one of [`WAITS`].
    pub fn new(wait: &str) -> World {
        let place = Place::new(Ends::Both).eager();
        let port = ports::free();
        let victim = place.own(Side::Server, "hostile").args("victim");
        let victim = victim.args(&format!("port={port} wait={wait}")).piped();
        let victim = victim.limit(20).start().listening(port);
        let honest = place.own(Side::Client, "hostile").args("honest");
        let honest = honest.args(&format!("port={port} conns={HONEST}")).piped();
        let mut honest = honest.limit(20).start();
        honest.prints("connected");
        let library = place.folder().join("library.so");
        fs::copy(built("libulsock_preload.so"), &library).expect("copy the library");
        let mut world = World {
            before: Usage::of(victim.pid()),
            victim,
            honest,
            heard: 0,
            undisturbed: 0.0,
            port,
            library,
            place,
        };
        world
            .serve(Duration::from_millis(200))
            .expect("a victim that serves");
        let served = world.serve(Duration::from_millis(300));
        world.undisturbed = served.expect("a victim that serves").rate;
        world.before = Usage::of(world.victim.pid());
        world
    }

    /// One attack, by a stranger or by the victim's own user.
    pub fn attack(&mut self, case: &Case, seed: u64, by_stranger: bool) -> Verdict {
        self.honest.tell("go\n");
        let end = Instant::now() + LEAST;
        let attacker = self.start(case, seed, by_stranger);
        let made = self.follow(attacker);
        thread::sleep(end.saturating_duration_since(Instant::now()));
        let mut service = self.rest()?;
        let attacker = made?;
        if !self.is_fast(&service) {
            // The machine may have had something else to do for a moment.
            service = self.serve(Duration::from_secs(1))?;
        }
        self.judge(&service)?;
        self.is_idle("while the attacker holds what it has")?;
        let held = Usage::of(self.victim.pid());
        if !held.is_within(&self.before, &HELD) {
            return Err(format!("the attacker has {held}, of {}", self.before));
        }
        drop(attacker);
        self.has_let_go()?;
        self.is_idle("when the attacker is gone")?;
        Ok(Cost { service, held })
    }

    fn start(&self, case: &Case, seed: u64, by_stranger: bool) -> Running {
        let uid = if by_stranger { case.stranger } else { 0 };
        let run_dir = self.place.run_dir().display();
        let attacker = self.place.own(Side::Client, "hostile");
        let attacker = attacker.without("LD_PRELOAD").args(&format!(
            "attack case={} seed={seed} port={} run={run_dir} victim=0 uid={uid} library={}",
            case.name,
            self.port,
            self.library.display()
        ));
        attacker.limit(LIMIT).start()
    }

    /// Has the victim call whom the attacker wants it to, until the attack was made.
    fn follow(&mut self, mut attacker: Running) -> Result<Running, String> {
        let end = Instant::now() + Duration::from_secs(LIMIT);
        let mut read = 0;
        loop {
            let output = attacker.output();
            for line in output[read..].split_inclusive('\n') {
                if !line.ends_with('\n') {
                    break;
                }
                read += line.len();
                if line.starts_with(CALL) {
                    self.all_live()?;
                    self.victim.tell(line);
                }
                if let Some(why) = line.strip_prefix(FAILED) {
                    return Err(why.trim_end().to_owned());
                }
                if line.trim_end() == DONE {
                    return Ok(attacker);
                }
            }
            if Instant::now() > end || attacker.has_ended() {
                return Err(format!("the attacker failed: {}", attacker.errors()));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn all_live(&mut self) -> Result<(), String> {
        for (name, program) in [
            ("victim", &mut self.victim),
            ("honest client", &mut self.honest),
        ] {
            if program.has_ended() {
                return Err(format!("the {name} has ended: {}", program.errors()));
            }
        }
        Ok(())
    }

    /// Honest clients work for so long.
    fn serve(&mut self, time: Duration) -> Result<Service, String> {
        self.all_live()?;
        self.honest.tell("go\n");
        thread::sleep(time);
        self.rest()
    }

    /// Honest clients stop, and say what they got.
    fn rest(&mut self) -> Result<Service, String> {
        self.all_live()?;
        self.honest.tell("rest\n");
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let output = self.honest.output();
            let line = output[self.heard..].lines().find(|it| it.contains(" us"));
            if let Some(line) = line {
                let service = service(line);
                self.heard = output.len();
                return service.ok_or_else(|| format!("the honest client says {line:?}"));
            }
            self.all_live()?;
            if Instant::now() > end {
                let calls = procfs::system_calls(self.victim.pid());
                return Err(format!(
                    "honest clients are not served; the victim: {calls}"
                ));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn judge(&self, service: &Service) -> Result<(), String> {
        self.judge_longest(service)?;
        if !self.is_fast(service) {
            let rates = (service.rate, self.undisturbed);
            return Err(format!(
                "{:.2} of {:.2} round trips in a ms",
                rates.0, rates.1
            ));
        }
        Ok(())
    }

    fn is_fast(&self, service: &Service) -> bool {
        service.rate >= LEAST_RATE * self.undisturbed
    }

    fn judge_longest(&self, service: &Service) -> Result<(), String> {
        let Service { longest, late, .. } = *service;
        if longest > LONGEST + late {
            return Err(format!(
                "a round trip took {longest:?}, the machine was late by {late:?}"
            ));
        }
        Ok(())
    }

    fn is_idle(&self, when: &str) -> Result<(), String> {
        let pid = self.victim.pid();
        let mut used = Duration::ZERO;
        for _ in 0..LOOKS {
            let before = procfs::cpu_time(pid);
            thread::sleep(LOOK);
            used = procfs::cpu_time(pid).saturating_sub(before);
            if used <= LOOK.mul_f64(IDLE) {
                return Ok(());
            }
        }
        let calls = procfs::system_calls(pid);
        Err(format!(
            "the victim spins {when}: {used:?} of {LOOK:?}; {calls}"
        ))
    }

    /// What is not needed goes at calls that come later, so there have to be some.
    fn has_let_go(&mut self) -> Result<(), String> {
        let end = Instant::now() + LET_GO;
        loop {
            let service = self.serve(LEAST)?;
            self.judge_longest(&service)?;
            self.visit();
            self.be_called();
            let now = Usage::of(self.victim.pid());
            if now.is_within(&self.before, &LEFT) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("the victim keeps {now}, of {}", self.before));
            }
        }
    }

    /// A new client, for a moment.
    fn visit(&self) {
        let visitor = self.place.own(Side::Client, "echo_client");
        let visitor = visitor.args(&format!("port={} conns=1 rounds=20 max=100", self.port));
        visitor.run();
    }

    /// The victim calls somebody without ulsock, for a moment.
    fn be_called(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
        let port = listener.local_addr().expect("an address").port();
        self.victim.tell(&format!("{CALL}{port}\n"));
        let (mut stream, _) = listener.accept().expect("the victim calls");
        let mut buffer = [0; 4096];
        for _ in 0..20 {
            let read = stream.read(&mut buffer).expect("it sends");
            stream.write_all(&buffer[..read]).expect("it receives");
        }
    }

    /// Both end as they should.
    pub fn end(self) {
        self.honest.succeed();
        self.victim.succeed();
        self.place.check_quiet();
    }
}

fn service(line: &str) -> Option<Service> {
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || -> Option<u64> { numbers.next() };
    let (rounds, ms, longest, late) = (next()?, next()?, next()?, next()?);
    Some(Service {
        rate: rounds as f64 / ms.max(1) as f64,
        longest: Duration::from_micros(longest),
        late: Duration::from_micros(late),
    })
}
