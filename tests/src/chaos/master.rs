//! The course of a run: a calm time first, after which those who may not be killed are measured; then acts at
//! random; then an orderly end, and the accounts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use super::acts::{ACTS, Stage};
use super::board::Board;
use super::cast;
use super::judge::Judge;
use super::state;
use crate::procfs;
use crate::report::Report;
use crate::rng::Rng;

/// Before the first act.
const CALM: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(5);
const SAY: Duration = Duration::from_secs(5);
/// Ticks between two looks at all conversations.
const LOOK: u64 = 10;
/// Milliseconds between two acts.
const BETWEEN: usize = 200;
/// For the end of all who take part.
const PATIENCE: Duration = Duration::from_secs(40);
/// Descriptors that one who lives long may have more at the end than after the calm time: up to 6 were seen, which does
/// not grow with the number of connections.
const MORE_FDS: usize = 16;
/// KiB that it may have more, for what its allocator and the library keep for later.
const MORE_KIB: u64 = 32 * 1024;

/// One run.
pub struct Master {
    stage: Stage,
    board: Board,
    judge: Judge,
    seed: u64,
    verbose: bool,
    rng: Rng,
    counts: BTreeMap<&'static str, u64>,
    ticks: u64,
    starts: u64,
    ending: bool,
    began: Instant,
}

/// Runs for so many seconds; an error says what was wrong.
pub fn run(seconds: u64, seed: u64, verbose: bool) -> Result<String, String> {
    let stage = Stage::set();
    let board = Board::open(&stage.scene.path("board"));
    let mut master = Master {
        stage,
        board,
        judge: Judge::default(),
        seed,
        verbose,
        rng: Rng::new(seed, 0),
        counts: BTreeMap::new(),
        ticks: 0,
        starts: 0,
        ending: false,
        began: Instant::now(),
    };
    let result = master.all(Duration::from_secs(seconds));
    master.stage.take_back(true);
    if result.is_err() {
        master.abandon();
    }
    result
}

impl Master {
    fn all(&mut self, time: Duration) -> Result<String, String> {
        self.start_servers()?;
        self.ending = false;
        self.start_clients();
        self.play(CALM, false)?;
        self.end_clients()?;
        let calm = self.measure();
        self.board.tell(false, false);
        self.ending = false;
        self.start_clients();
        self.play(time.saturating_sub(CALM), true)?;
        self.stage.take_back(true);
        self.end_clients()?;
        self.compare(&calm)?;
        self.end_servers()?;
        self.clean()?;
        Ok(self.summary())
    }

    fn start(&mut self, number: usize) {
        let doors = cast::doors(&self.stage.members, &self.stage.scene);
        self.starts += 1;
        let member = &mut self.stage.members[number];
        member.start(&self.stage.scene, self.seed, &doors);
        if self.verbose {
            println!("         start: {} [{}]", member.name(), member.pid());
        }
    }

    fn numbers(&self, clients: bool) -> Vec<usize> {
        let members = self.stage.members.iter().enumerate();
        let members = members.filter(|(_, member)| member.is_client() == clients);
        members.map(|(number, _)| number).collect()
    }

    fn start_servers(&mut self) -> Result<(), String> {
        for number in self.numbers(false) {
            self.start(number);
        }
        let all = |master: &Self| {
            master
                .stage
                .members
                .iter()
                .all(|m| m.is_client() || m.listens())
        };
        self.until("all servers listen", all)
    }

    fn start_clients(&mut self) {
        for number in self.numbers(true) {
            self.start(number);
        }
    }

    fn play(&mut self, time: Duration, acts: bool) -> Result<(), String> {
        let start = Instant::now();
        let (mut next, mut said) = (start, start);
        while start.elapsed() < time {
            self.tick()?;
            if acts && Instant::now() >= next {
                self.act();
                next = Instant::now() + Duration::from_millis(self.rng.below(BETWEEN) as u64);
            }
            if said.elapsed() >= SAY {
                said = Instant::now();
                println!("{}", self.progress());
            }
        }
        Ok(())
    }

    /// Looks after everybody once.
    fn tick(&mut self) -> Result<(), String> {
        let before = Instant::now();
        thread::sleep(TICK);
        self.ticks += 1;
        self.stage.take_back(false);
        self.stage.commands()?;
        self.tend()?;
        if self.ticks.is_multiple_of(LOOK) {
            self.look()?;
        }
        // The lag of late is what the machine takes from everybody; it fades.
        let lag = before.elapsed().saturating_sub(TICK).as_nanos() as u64;
        self.judge.lag = (self.judge.lag - self.judge.lag / 1000).max(2 * lag);
        Ok(())
    }

    fn look(&mut self) -> Result<(), String> {
        assert!(self.board.has_room(self.judge.low), "the board is full");
        let found = self.judge.look(self.board, &self.stage.fates);
        found.map_err(|(id, why)| {
            println!("conversation {id}: {why}");
            state::print(&self.stage.scene, self.board, id);
            format!("conversation {id}: {why}")
        })
    }

    /// Whoever has ended gets a successor, if nobody is to end.
    fn tend(&mut self) -> Result<(), String> {
        for number in 0..self.stage.members.len() {
            let member = &mut self.stage.members[number];
            let pid = member.pid();
            if pid == 0 || !member.end() {
                continue;
            }
            let (good, text) = member.bury();
            let (client, name, began) = (member.is_client(), member.name(), member.began);
            let killed = self.stage.fates.was_killed(pid, began);
            if !(killed || good && (client || self.ending)) {
                return Err(format!(
                    "{name} ({pid}) ended, and nobody killed it: {text}"
                ));
            }
            if !self.ending {
                self.start(number);
            }
        }
        Ok(())
    }

    fn act(&mut self) {
        let weights: usize = ACTS.iter().map(|(_, weight, _)| weight).sum();
        let mut drawn = self.rng.below(weights);
        for (name, weight, act) in ACTS {
            if drawn >= weight {
                drawn -= weight;
                continue;
            }
            if let Some(text) = act(&mut self.stage, &mut self.rng) {
                *self.counts.entry(name).or_default() += 1;
                if self.verbose {
                    println!("{:8.3} {name}: {text}", self.began.elapsed().as_secs_f64());
                }
            }
            return;
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !done(self) {
            self.tick()?;
            if start.elapsed() > PATIENCE {
                for member in &self.stage.members {
                    for pid in member.pids() {
                        println!("{} is still there", member.name());
                        state::process(&self.stage.scene, pid);
                    }
                }
                return Err(format!("waited in vain until {what}"));
            }
        }
        Ok(())
    }

    fn end_clients(&mut self) -> Result<(), String> {
        self.ending = true;
        self.board.tell(false, true);
        self.until("all clients have ended", |master| {
            let mut members = master.stage.members.iter();
            members.all(|member| !member.is_client() || member.pid() == 0)
        })?;
        self.until("all is judged", |master| {
            master.judge.open(master.board) == 0
        })?;
        // Servers close after they have written that they are done.
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            self.tick()?;
        }
        Ok(())
    }

    /// Descriptors and KiB of those who may not be killed.
    fn measure(&self) -> Vec<(String, usize, u64)> {
        let members = self.stage.members.iter().filter(|member| !member.mortal);
        members
            .map(|member| {
                let pid = member.pid();
                (
                    member.name(),
                    procfs::fds(pid),
                    procfs::proportional_kib(pid),
                )
            })
            .collect()
    }

    fn compare(&self, calm: &[(String, usize, u64)]) -> Result<(), String> {
        for ((name, fds, kib), (_, fds_now, kib_now)) in calm.iter().zip(self.measure()) {
            println!("{name}: {fds} descriptors, now {fds_now}; {kib} KiB, now {kib_now}");
            if fds_now > fds + MORE_FDS || kib_now > kib + MORE_KIB {
                return Err(format!("{name} has more than before"));
            }
        }
        Ok(())
    }

    fn end_servers(&mut self) -> Result<(), String> {
        self.board.tell(true, true);
        for number in self.numbers(false) {
            self.stage.members[number].ask_to_end();
        }
        self.until("all servers have ended", |master| {
            master.stage.members.iter().all(|member| member.pid() == 0)
        })?;
        self.until("all commands have ended", |master| master.stage.is_quiet())
    }

    /// What killed processes left is removed by the next one that opens the run directory: `ulsock doctor` always does, a
    /// program when it has a connection that may leave the kernel. Then nothing may be left.
    fn clean(&mut self) -> Result<(), String> {
        let swept = self.stage.scene.ulsock(&["doctor"]).status();
        swept.map_err(|error| format!("ulsock doctor: {error}"))?;
        let litter = self.stage.scene.litter();
        let left = procfs::working_in(&self.stage.scene.path(""));
        if litter.is_empty() && left.is_empty() {
            return Ok(());
        }
        for pid in &left {
            state::process(&self.stage.scene, *pid);
        }
        Err(format!(
            "left in the run directory: {litter:?}; processes: {left:?}"
        ))
    }

    /// After a failure nobody is left, either.
    fn abandon(&mut self) {
        for pid in procfs::working_in(&self.stage.scene.path("")) {
            // SAFETY: plain integers; the process works in our own folder.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    }

    fn progress(&self) -> String {
        let (execs, passes) = self.board.handed();
        let acts: u64 = self.counts.values().sum();
        format!(
            "{:4.0} s: {} connections, {} open, {} exact, {} cut short, {} MB, {execs} through exec, {passes} passed, \
             {acts} acts, {} programs",
            self.began.elapsed().as_secs_f64(),
            self.board.begun(),
            self.judge.open(self.board),
            self.judge.exact,
            self.judge.cut,
            self.judge.bytes / 1_000_000,
            self.starts,
        )
    }

    fn summary(&self) -> String {
        let (report, lines) = Report::sum(&self.stage.scene.report());
        let mut text = self.progress();
        let megabytes = |bytes: u64| bytes / 1_000_000;
        let _ = write!(
            text,
            "\n{lines} programs reported: {} MB by rings, {} MB by the kernel, {} of {} connections left it",
            megabytes(report.ring_bytes()),
            megabytes(report.kernel_bytes()),
            report.upgraded,
            report.connections,
        );
        let _ = write!(
            text,
            "\na death was noticed within {} ms; acts:",
            self.judge.noticed / 1_000_000
        );
        for (name, count) in &self.counts {
            let _ = write!(text, " {name} {count}");
        }
        text
    }
}
