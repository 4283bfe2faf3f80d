//! What the master does to those who take part: one random act at a time, and what takes it back.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::board::now;
use super::cast::{Member, Part};
use super::judge::Fates;
use super::scene::Scene;
use crate::rng::Rng;

/// Nobody stands still, and nothing is scarce, for longer.
const LONGEST_MS: usize = 1500;
/// The limit of a process that runs out of descriptors: it has more already. Not less: the kernel refuses a poll on
/// more descriptors than the limit, and ulsock's sleep in a receive or send polls some beside the program's. It notices
/// a limit that the program itself lowers (`setrlimit`), and not one that is lowered from outside, as here.
const NO_FDS: u64 = 12;
/// What the `ulsock` command may take.
const COMMAND: Duration = Duration::from_secs(30);
const ORDERS: [&str; 8] = [
    "demote", "promote", "promote", "promote", "off", "on", "on", "on",
];

/// The acts, and how often each is drawn.
pub const ACTS: [(&str, usize, Act); 8] = [
    ("kill", 6, kill),
    ("kill-group", 4, kill_group),
    ("stop", 10, stop),
    ("stop-group", 3, stop_group),
    ("ctl", 6, order),
    ("no-fds", 4, no_fds),
    ("no-room", 2, no_room),
    ("look", 2, look),
];

/// Gives a line about what was done; nothing, if nobody fits.
pub type Act = fn(&mut Stage, &mut Rng) -> Option<String>;

/// What takes an act back.
enum Undo {
    Continue(u32),
    Fds(u32, libc::rlimit),
    Room,
}

/// Everything that acts work on.
pub struct Stage {
    /// The folders.
    pub scene: Scene,
    /// Who takes part.
    pub members: Vec<Member>,
    /// What was done to them.
    pub fates: Fates,
    undo: Vec<(u64, Undo)>,
    commands: Vec<(Child, Instant, String)>,
}

impl Stage {
    /// All members, none of them started.
    pub fn set() -> Self {
        Self {
            scene: Scene::set(),
            members: Member::all(),
            fates: Fates::default(),
            undo: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Takes back what is due; with `all`, everything.
    pub fn take_back(&mut self, all: bool) {
        let due = |at: &u64| all || *at <= now();
        for (_, undo) in self.undo.extract_if(.., |(at, _)| due(at)) {
            match undo {
                Undo::Continue(pid) => {
                    self.fates.stop(pid, now());
                    signal(pid, libc::SIGCONT);
                }
                Undo::Fds(pid, limit) => drop(set_fds(pid, &limit)),
                Undo::Room => self.scene.empty(),
            }
        }
    }

    /// Looks after the commands that run; an error names one that failed or does not end.
    pub fn commands(&mut self) -> Result<(), String> {
        let mut running = Vec::new();
        for (mut child, began, words) in self.commands.drain(..) {
            match child.try_wait().expect("wait") {
                // 1: there was nobody to order, or a look found something.
                Some(status) if matches!(status.code(), Some(0 | 1)) => {}
                Some(status) => return Err(format!("ulsock {words}: {status}")),
                None if began.elapsed() > COMMAND => {
                    let _ = child.kill();
                    return Err(format!("ulsock {words} does not end"));
                }
                None => running.push((child, began, words)),
            }
        }
        self.commands = running;
        Ok(())
    }

    /// Whether no command runs.
    pub fn is_quiet(&self) -> bool {
        self.commands.is_empty()
    }

    fn command(&mut self, words: &str) {
        let list: Vec<&str> = words.split(' ').collect();
        let mut command = self.scene.ulsock(&list);
        let child = command.stdout(Stdio::null()).spawn().expect("ulsock");
        self.commands
            .push((child, Instant::now(), words.to_owned()));
    }

    fn later(&mut self, rng: &mut Rng, undo: Undo) -> usize {
        let milliseconds = rng.size(LONGEST_MS);
        let at = now() + milliseconds as u64 * 1_000_000;
        if let Undo::Continue(pid) = undo {
            self.fates.stop(pid, at);
        }
        self.undo.push((at, undo));
        milliseconds
    }

    fn killed(&mut self, number: usize, pids: &[u32]) -> String {
        self.fates.kill(number, pids);
        for pid in pids {
            signal(*pid, libc::SIGKILL);
        }
        format!("{} {pids:?}", self.members[number].name())
    }

    /// A member that fits.
    fn pick(&self, rng: &mut Rng, fits: impl Fn(&Member) -> bool) -> Option<usize> {
        let all = 0..self.members.len();
        let fit: Vec<usize> = all.filter(|number| fits(&self.members[*number])).collect();
        (!fit.is_empty()).then(|| rng.pick(&fit))
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: plain integers. The process is one that a member was or has forked, some seconds ago at most.
    unsafe { libc::kill(pid as i32, signal) };
}

fn set_fds(pid: u32, limit: &libc::rlimit) -> Option<libc::rlimit> {
    let mut old = *limit;
    // SAFETY: both are locals.
    let done = unsafe { libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, limit, &mut old) };
    (done == 0).then_some(old)
}

/// A process of its group, by chance.
fn kill(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    // Who passes connections, and who receives them, cannot go on without each other.
    let fits = |member: &Member| member.mortal && member.part != Part::Server("pass");
    let number = stage.pick(rng, fits)?;
    let member = &stage.members[number];
    let mut pids = member.pids();
    if member.part == Part::Real("nginx") {
        // Without their master the others would keep the port.
        pids.retain(|pid| *pid != member.pid());
    }
    (!pids.is_empty()).then(|| {
        let pid = rng.pick(&pids);
        stage.killed(number, &[pid])
    })
}

fn kill_group(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let number = stage.pick(rng, |member| member.mortal)?;
    let pids = stage.members[number].pids();
    (!pids.is_empty()).then(|| stage.killed(number, &pids))
}

fn stop(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let number = stage.pick(rng, |_| true)?;
    let pids = stage.members[number].pids();
    let pid = (!pids.is_empty()).then(|| rng.pick(&pids))?;
    Some(stopped(stage, rng, number, &[pid]))
}

fn stop_group(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let number = stage.pick(rng, |_| true)?;
    let pids = stage.members[number].pids();
    Some(stopped(stage, rng, number, &pids))
}

fn stopped(stage: &mut Stage, rng: &mut Rng, number: usize, pids: &[u32]) -> String {
    let mut most = 0;
    for pid in pids {
        most = most.max(stage.later(rng, Undo::Continue(*pid)));
        signal(*pid, libc::SIGSTOP);
    }
    format!("{} {pids:?} for {most} ms", stage.members[number].name())
}

fn order(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let order = rng.pick(&ORDERS);
    let number = stage.pick(rng, |_| true)?;
    let words = match rng.below(4) {
        0 => format!("ctl {order}"),
        _ => format!("ctl {order} --pid {}", stage.members[number].pid()),
    };
    stage.command(&words);
    Some(words)
}

/// Only of programs that need no descriptor but for their connections: exec needs some.
fn no_fds(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let fits = |member: &Member| {
        matches!(
            member.part,
            Part::Client(false) | Part::Server("threads" | "epoll" | "edge")
        )
    };
    let number = stage.pick(rng, fits)?;
    let pid = stage.members[number].pid();
    if stage
        .undo
        .iter()
        .any(|(_, undo)| matches!(undo, Undo::Fds(other, _) if *other == pid))
    {
        return None;
    }
    let now = libc::rlimit {
        rlim_cur: NO_FDS,
        rlim_max: hard_limit(pid)?,
    };
    let old = set_fds(pid, &now)?;
    let most = stage.later(rng, Undo::Fds(pid, old));
    Some(format!("{} for {most} ms", stage.members[number].name()))
}

fn hard_limit(pid: u32) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the new limit is null, the old one a local.
    let done = unsafe {
        libc::prlimit(
            pid as i32,
            libc::RLIMIT_NOFILE,
            std::ptr::null(),
            &mut limit,
        )
    };
    (done == 0).then_some(limit.rlim_max)
}

fn no_room(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    if stage
        .undo
        .iter()
        .any(|(_, undo)| matches!(undo, Undo::Room))
    {
        return None;
    }
    stage.scene.fill();
    let most = stage.later(rng, Undo::Room);
    Some(format!("for {most} ms"))
}

fn look(stage: &mut Stage, rng: &mut Rng) -> Option<String> {
    let words = rng.pick(&["top --once --json", "stats --json"]);
    stage.command(words);
    Some(words.to_owned())
}
