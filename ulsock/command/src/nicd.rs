//! `ulsock nicd`: the daemon that joins this host to others, and what prepares it. Each subcommand has
//! a file of its own.

mod check;
mod key;
mod serve;
mod status;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Options,
}

#[derive(Subcommand)]
enum Command {
    /// Make this host's key, if it has none, and print its public key
    Key(key::Options),
    /// Check the peers file, and say what would be done with it
    Check(check::Options),
    /// Show the hosts and interfaces of the daemon that runs here
    Status(status::Options),
}

pub fn run(options: &Options) -> Outcome {
    match &options.command {
        None => serve::run(&options.serve),
        Some(Command::Key(options)) => key::run(options),
        Some(Command::Check(options)) => check::run(options),
        Some(Command::Status(options)) => status::run(options),
    }
}
