//! `ulsock top`: what the programs of this host that run on ulsock do now: a live view in a terminal, else a list.
//!
//! It only reads what the processes remember of their connections, as far as it may.

mod history;
mod keys;
mod list;
mod live;
mod model;
mod place;
mod screen;
mod view;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sockets::observe::{self, Reach};

use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::preload;
use crate::selection::Selection;

const REFRESH: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct TopOptions {
    /// Print the list once and exit; otherwise it is refreshed every second
    #[arg(long)]
    once: bool,
    /// Print one JSON array per refresh instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

pub fn run(options: &TopOptions) -> Outcome {
    descriptors::have_all();
    let config = preload::configuration()?;
    let reach = options.selection.reach(&config)?;
    let is_list = options.once || options.json || !io::stdout().is_terminal();
    let shown = match is_list || !io::stdin().is_terminal() {
        true => show(options, &reach),
        false => live::run(&options.selection, &reach, &config.run_dir),
    };
    match shown {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read us has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::work(format!("cannot write the list: {error}"))),
    }
}

fn show(options: &TopOptions, reach: &Reach) -> io::Result<()> {
    let mut out = io::stdout().lock();
    loop {
        let mut rows = observe::live(reach);
        rows.retain(|row| {
            let ends = [row.local, row.peer];
            options.selection.has(row.pid, &row.program, ends)
        });
        let text = match options.json {
            true => list::json(rows)?,
            false => list::table(&rows),
        };
        writeln!(out, "{text}")?;
        out.flush()?;
        if options.once {
            return Ok(());
        }
        std::thread::sleep(REFRESH);
    }
}
