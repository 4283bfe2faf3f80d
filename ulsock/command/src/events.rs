//! `ulsock events`: what happens to the connections of this host, one line each, as it happens.
//!
//! The programs keep their last events in memory; this reads them, as far as it may.

pub mod line;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use sockets::observe::{Follower, News, Reach};

use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::selection::Selection;

const LOOK: Duration = Duration::from_millis(50);
/// For programs that have begun: they are looked for among all processes.
const FIND: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct EventsOptions {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Begin with what the programs still know of the past
    #[arg(long)]
    past: bool,
    /// Print what the programs still know of the past, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    selection: Selection,
}

pub fn run(options: &EventsOptions) -> Outcome {
    descriptors::have_all();
    let reach = options.selection.reach(&preload::configuration()?)?;
    match follow(options, &reach) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read us has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::work(format!("cannot write the events: {error}"))),
    }
}

fn follow(options: &EventsOptions, reach: &Reach) -> io::Result<()> {
    let mut follower = match options.past || options.once {
        true => Follower::with_past(),
        false => Follower::default(),
    };
    let mut out = io::stdout().lock();
    if !options.json && out.is_terminal() {
        eprintln!("What happens from now on to programs that run on ulsock; Ctrl-C ends it.");
    }
    loop {
        follower.find_programs(reach);
        let found = Instant::now();
        loop {
            print(options, &follower.news(), &mut out)?;
            if options.once {
                // What was just being written is there now.
                std::thread::sleep(LOOK);
                return print(options, &follower.news(), &mut out);
            }
            if found.elapsed() > FIND {
                break;
            }
            std::thread::sleep(LOOK);
        }
        follower.forget_ended();
    }
}

fn print(options: &EventsOptions, news: &News, out: &mut impl Write) -> io::Result<()> {
    if news.missed > 0 {
        writeln!(out, "{}", line::missed(news.missed, options.json))?;
    }
    for event in &news.events {
        let ends = [event.event.local, event.event.peer];
        if options.selection.has(event.event.pid, &event.program, ends) {
            let line = match options.json {
                true => line::json(event)?,
                false => line::text(event),
            };
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}
