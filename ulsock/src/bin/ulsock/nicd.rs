//! `ulsock nicd`: the daemon that joins this host to others, and what prepares it. Each subcommand has
//! a file of its own.

mod check;
mod key;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make this host's key, if it has none, and print its public key
    Key(key::Options),
    /// Check the peers file, and say what would be done with it
    Check(check::Options),
}

pub fn run(options: &Options) -> Outcome {
    match &options.command {
        Command::Key(options) => key::run(options),
        Command::Check(options) => check::run(options),
    }
}
