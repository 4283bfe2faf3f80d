//! One run of a program: starts the actors, gives them the steps one after the other, and writes
//! down what came of each.
//!
//! A step ends when its thread has answered, or is asleep in its call: then the call has blocked, and
//! its answer is part of the step that brought it about. A woken thread is runnable before the call
//! that woke it returns, so whoever is found asleep after a step was not woken by it.

mod cast;
mod link;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::mode::Mode;
use super::program::{ACTORS, Program, Step};
use super::wires::{self, THREADS};
use cast::Cast;

/// Nothing takes that long unless it hangs.
const HANG: Duration = Duration::from_secs(12);
/// Asleep for that long: blocked. Longer than the pace of a peek that waits for more than is there.
const BLOCKED: Duration = Duration::from_micros(2500);
/// The same in a program with time limits on its sockets, which are shorter.
const BLOCKED_TIMED: Duration = Duration::from_millis(130);

/// Longer than a send into a ring of limited size waits for a reader before it goes to the kernel.
const SPILLED: Duration = Duration::from_millis(15);
/// Longer than the kernel holds back what a cork or MSG_MORE lets it.
const HELD_BACK: Duration = Duration::from_millis(300);

/// Longer than a relay takes to pass on what it got, as a rule.
const RELAYED: Duration = Duration::from_millis(60);

/// Longer than the wait for a peer in a call that returns a connection to the kernel.
const HANDED_OVER: Duration = Duration::from_millis(300);

/// Where runs leave their traces.
pub struct Corner {
    /// `ULSOCK_RUN_DIR`.
    pub run_dir: PathBuf,
    /// `ULSOCK_REPORT`, and what actors write to stderr.
    pub folder: PathBuf,
}

impl Corner {
    /// Where the actors report.
    pub fn report(&self) -> PathBuf {
        self.folder.join("report")
    }

    /// A folder of one run; the names of all have the same length.
    fn new_folder(&self) -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 1_000_000;
        let folder = self.folder.join(format!("u{number:06}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for names");
        folder
    }

    /// Where an actor complains.
    pub fn errors(&self, actor: usize) -> PathBuf {
        self.folder.join(format!("errors.{}", ACTORS[actor]))
    }
}

/// What came of a thread that was waited for.
enum Waited {
    Said(String),
    Blocked,
    Died(String),
    Hangs,
}

/// A run under way.
pub struct World {
    cast: Cast,
    patience: Duration,
    /// What the last step of each thread was, in case that it sleeps.
    asleep: Vec<(usize, usize, Sleep)>,
    /// Receives may wait for more than one byte (SO_RCVLOWAT).
    collects: bool,
    /// Sends may be held back (TCP_CORK).
    corks: bool,
    /// The rings are limited.
    limited: bool,
    /// There may be relays.
    relays: bool,
}

/// What a call does when it is woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Takes,
    /// Takes events.
    Waits,
    /// Takes what comes until it is enough. On a ring it stays there until then, so that others see
    /// it for longer.
    Collects,
    Looks,
    Other,
}

/// Runs a program, and gives the outcome of each step and how it ended.
pub fn run(program: &Program, mode: &Mode, corner: &Corner, actor_program: &Path) -> Vec<String> {
    let timed = sets_option(program, &["SO_RCVTIMEO", "SO_SNDTIMEO"]);
    let mut world = World {
        cast: Cast::start(mode, corner, actor_program),
        patience: if timed { BLOCKED_TIMED } else { BLOCKED },
        asleep: Vec::new(),
        collects: sets_option(program, &["SO_RCVLOWAT"]),
        corks: sets_option(program, &["TCP_CORK"]),
        limited: mode.ring > 0,
        relays: program.steps.iter().any(Step::hands_over),
    };
    let mut outcomes: Vec<String> = Vec::new();
    for step in &program.steps {
        let outcome = world.step(step);
        let hangs = outcome.contains("HANGS");
        outcomes.push(outcome);
        if hangs {
            return outcomes;
        }
    }
    outcomes.push(world.end());
    outcomes
}

/// Does it end what a number means?
fn closes(step: &Step) -> bool {
    matches!(
        step.call.as_str(),
        "close" | "close_range" | "dup2" | "dup3" | "link" | "socketpair" | "connect"
    )
}

fn sends(step: &Step) -> bool {
    let call = step.call.as_str();
    call.starts_with("send")
        || call.contains("write")
        || matches!(call, "splice_in" | "bulk" | "flood" | "fill" | "talk")
}

/// Does the program set one of these options?
fn sets_option(program: &Program, names: &[&str]) -> bool {
    let mut options = program
        .steps
        .iter()
        .filter(|step| step.call == "setsockopt" && step.get("value") != 0)
        .map(|step| step.get("option"));
    options.any(|option| {
        super::names::OPTIONS
            .get(option as usize)
            .is_some_and(|option| names.contains(&option.0))
    })
}

impl World {
    fn step(&mut self, step: &Step) -> String {
        let actor = step.actor;
        let mut text = if !self.cast.is_there(actor) {
            "absent".to_owned()
        } else if step.call == "signal" {
            self.signal(step)
        } else if self.cast.is_busy(actor, step.thread) {
            "busy".to_owned()
        } else if self.would_race(step) {
            "passed over".to_owned()
        } else {
            match step.call.as_str() {
                "link" => self.link(step),
                "talk" => self.talk(step),
                "bulk" => self.bulk(step),
                "flood" => self.flood(step),
                // It asks for room with a time limit.
                "fill" => comparable(&self.finish(step.clone())),
                _ => self.one(step),
            }
        };
        let more = step.get("flags") & i64::from(libc::MSG_MORE) != 0;
        if sends(step) && (more || self.corks) {
            std::thread::sleep(HELD_BACK);
        } else if self.relays && (sends(step) || closes(step) || step.call == "shutdown") {
            std::thread::sleep(RELAYED);
        }
        for (actor, thread, late) in self.settle() {
            text.push_str(&format!("; {}{thread}: {late}", ACTORS[actor]));
        }
        text
    }

    /// Two sleepers of which one takes what wakes both: who comes first is the scheduler's choice.
    fn would_race(&self, step: &Step) -> bool {
        let of_both = matches!(
            step.call.as_str(),
            "bulk" | "flood" | "fill" | "talk" | "sendmmsg"
        );
        let asleep = self.asleep.iter().filter(|(actor, thread, _)| {
            let related = actor % 2 == step.actor % 2 || of_both;
            related && self.cast.is_busy(*actor, *thread)
        });
        let mut ways = asleep.map(|(_, _, way)| *way);
        match self.way_to_sleep(step) {
            Sleep::Takes | Sleep::Waits | Sleep::Collects => ways.any(|way| way != Sleep::Other),
            Sleep::Looks => ways.any(|way| !matches!(way, Sleep::Looks | Sleep::Other)),
            Sleep::Other if matches!(step.call.as_str(), "probe" | "FIONREAD") => {
                ways.any(|way| way == Sleep::Collects)
            }
            // A known difference: a poll that sleeps on a number that changes its meaning.
            Sleep::Other if closes(step) => {
                ways.any(|way| matches!(way, Sleep::Looks | Sleep::Waits))
            }
            // A sleeper may wake between two messages, or after the last.
            Sleep::Other if step.call == "sendmmsg" => ways.any(|way| way != Sleep::Other),
            Sleep::Other => false,
        }
    }

    fn way_to_sleep(&self, step: &Step) -> Sleep {
        let collects = self.collects || step.get("flags") & i64::from(libc::MSG_WAITALL) != 0;
        match step.call.as_str() {
            "recv" | "read" | "recvfrom" | "readv" | "recvmsg" | "recvmmsg" | "preadv2"
                if collects =>
            {
                Sleep::Collects
            }
            "recv" | "read" | "recvfrom" | "readv" | "recvmsg" | "recvmmsg" | "preadv2" => {
                Sleep::Takes
            }
            "accept" | "accept4" | "splice_out" => Sleep::Takes,
            "bulk" | "flood" | "fill" | "empty" | "talk" => Sleep::Takes,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Sleep::Waits,
            "poll" | "ppoll" | "select" | "pselect" => Sleep::Looks,
            _ => Sleep::Other,
        }
    }

    /// Gives a step to its thread and waits.
    fn one(&mut self, step: &Step) -> String {
        self.cast.tell(step.actor, step.thread, &step.to_string());
        let patience = match step {
            _ if step.get("timeout") > 0 || step.call == "spawn" => HANG,
            _ if step.may_wait_for_peer() => self.patience.max(HANDED_OVER),
            _ if self.limited && sends(step) => self.patience.max(SPILLED),
            _ => self.patience,
        };
        let waited = self.wait(step.actor, step.thread, patience);
        let text = self.note(step.actor, step.thread, waited);
        self.asleep
            .retain(|(actor, thread, _)| (*actor, *thread) != (step.actor, step.thread));
        self.asleep
            .push((step.actor, step.thread, self.way_to_sleep(step)));
        if step.call == "fork" && text.contains("child") {
            self.cast.expect_child(step.actor, HANG);
        }
        text
    }

    /// Keeps book of who is busy and who is gone.
    fn note(&mut self, actor: usize, thread: usize, waited: Waited) -> String {
        self.cast
            .set_busy(actor, thread, matches!(waited, Waited::Blocked));
        match waited {
            Waited::Said(text) => text,
            Waited::Blocked => "blocks".to_owned(),
            Waited::Died(how) => {
                self.cast.bury(actor);
                how
            }
            Waited::Hangs => format!("HANGS {}", self.cast.where_is(actor, thread)),
        }
    }

    fn wait(&mut self, actor: usize, thread: usize, patience: Duration) -> Waited {
        let start = Instant::now();
        let mut asleep: Option<Instant> = None;
        loop {
            if let Some(text) = self.cast.hear(actor, thread, Duration::from_micros(200)) {
                return Waited::Said(text);
            }
            match self.cast.state(actor, thread) {
                Some('S') if patience < HANG => {
                    let since = *asleep.get_or_insert_with(Instant::now);
                    if since.elapsed() >= patience {
                        // It may have answered between the two looks.
                        return self
                            .cast
                            .hear(actor, thread, Duration::ZERO)
                            .map_or(Waited::Blocked, Waited::Said);
                    }
                }
                Some(_) => asleep = None,
                None => {
                    let text = self.cast.hear(actor, thread, Duration::ZERO);
                    return text
                        .map_or_else(|| Waited::Died(self.cast.death(actor, HANG)), Waited::Said);
                }
            }
            if start.elapsed() > HANG {
                return Waited::Hangs;
            }
        }
    }

    /// After a step: whoever it woke answers, the others sleep.
    fn settle(&mut self) -> Vec<(usize, usize, String)> {
        let mut late = Vec::new();
        for actor in 0..ACTORS.len() {
            for thread in 0..THREADS {
                if !self.cast.is_busy(actor, thread) {
                    continue;
                }
                let waited = self.wait(actor, thread, self.patience);
                if !matches!(waited, Waited::Blocked) {
                    late.push((actor, thread, self.note(actor, thread, waited)));
                }
            }
        }
        late
    }

    fn signal(&mut self, step: &Step) -> String {
        self.cast.signal(
            step.actor,
            step.get("thread") as usize,
            step.get("signal") as i32,
        );
        "sent".to_owned()
    }

    /// Who still blocks; then all must exit when told to.
    fn end(&mut self) -> String {
        let mut text = "end".to_owned();
        for (actor, name) in ACTORS.iter().enumerate() {
            for thread in (0..THREADS).filter(|thread| self.cast.is_busy(actor, *thread)) {
                text.push_str(&format!(" {name}{thread} blocks"));
            }
        }
        for (actor, name) in ACTORS.iter().enumerate().rev() {
            if self.cast.is_there(actor) && !self.cast.dismiss(actor, HANG) {
                text.push_str(&format!(" {name} HANGS at exit"));
            }
        }
        text
    }
}

/// The value behind a word that is not compared.
fn private(text: &str, key: &str) -> Option<i64> {
    let words = text
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('~')?.split_once('='));
    words
        .filter(|(name, _)| *name == key)
        .find_map(|(_, value)| value.parse().ok())
}

/// Without the words that are not compared.
pub fn comparable(text: &str) -> String {
    text.split(' ')
        .filter(|word| !word.starts_with('~'))
        .collect::<Vec<_>>()
        .join(" ")
}

const _: () = assert!(wires::CONTROL == THREADS);
