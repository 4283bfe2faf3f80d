//! `ulsock ctl`: orders live connections to kernel TCP and back, or whole programs, by what it writes into their memory.
//!
//! The kernel lets only the user of a program, and root, open that to write.

mod answer;
mod targets;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use sockets::observe::Reach;
use sockets::orders::Order;

use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::selection::{ProgramSelection, Selection};
use answer::Answer;
use targets::Targets;

/// Programs that make calls have followed by then.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

#[derive(Args)]
pub struct CtlOptions {
    #[command(subcommand)]
    order: CtlOrder,
}

#[derive(Subcommand)]
enum CtlOrder {
    /// Return connections to kernel TCP at once, and keep them there
    Demote(ConnectionOptions),
    /// Let connections leave kernel TCP again, and try it now
    Promote(ConnectionOptions),
    /// Keep all connections of programs on kernel TCP, those to come too
    Off(ProgramOptions),
    /// Take `off` back
    On(ProgramOptions),
}

#[derive(Args)]
struct ConnectionOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args)]
struct ProgramOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: ProgramSelection,
}

/// What is ordered, and to whom.
struct Task {
    order: Order,
    /// To whole programs.
    all: bool,
    json: bool,
    selection: Selection,
}

impl From<&CtlOrder> for Task {
    fn from(order: &CtlOrder) -> Task {
        let connections = |order, options: &ConnectionOptions| Task {
            order,
            all: false,
            json: options.json,
            selection: options.selection.clone(),
        };
        let programs = |order, options: &ProgramOptions| Task {
            order,
            all: true,
            json: options.json,
            selection: Selection::from(&options.selection),
        };
        match order {
            CtlOrder::Demote(options) => connections(Order::Kernel, options),
            CtlOrder::Promote(options) => connections(Order::Free, options),
            CtlOrder::Off(options) => programs(Order::Kernel, options),
            CtlOrder::On(options) => programs(Order::Free, options),
        }
    }
}

pub fn run(options: &CtlOptions) -> Outcome {
    descriptors::have_all();
    let task = Task::from(&options.order);
    let reach = task.selection.reach(&preload::configuration()?)?;
    let answer = give(&task, &reach)?;
    let text = match task.json {
        true => serde_json::to_string_pretty(&answer)
            .map_err(|why| Failure::work(format!("cannot write JSON: {why}")))?,
        false => answer.text(),
    };
    crate::print::all(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn give(task: &Task, reach: &Reach) -> Result<Answer, Failure> {
    let targets = Targets::find(reach, &task.selection, task.all);
    if targets.is_empty() {
        let refused = targets.refused.into_iter().next();
        return Err(refused.map_or_else(|| nothing_found(task), Failure::work));
    }
    for why in &targets.refused {
        let _ = writeln!(io::stderr(), "ulsock: {why}");
    }
    targets.order(task.order);
    let begin = Instant::now();
    while !targets.have_followed(task.order) && begin.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    Ok(Answer::of(&targets, task.order))
}

/// Why, and what can be done.
fn nothing_found(task: &Task) -> Failure {
    let what = match task.all {
        true => "program that runs on ulsock",
        false => "connection of a program that runs on ulsock",
    };
    let me = rustix::process::geteuid();
    let why = match task.selection.pid().map(|pid| (pid, owner(pid))) {
        Some((pid, None)) => {
            format!("there is no process {pid}; `ulsock top` lists those that have connections")
        }
        Some((pid, Some(uid))) if !me.is_root() && uid != me.as_raw() => {
            format!("process {pid} is uid {uid}'s, and only that user and root may order it")
        }
        Some((pid, Some(_))) => {
            format!("`ulsock doctor {pid}` says what of the process runs on ulsock")
        }
        None if !me.is_root() => {
            "`ulsock top` lists those that may be ordered: your own; root orders those of all users"
                .to_owned()
        }
        None => "`ulsock top` lists them".to_owned(),
    };
    Failure::work(format!("no {what} is meant: {why}"))
}

fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let process = std::fs::metadata(format!("/proc/{pid}"));
    process.ok().map(|process| process.uid())
}
