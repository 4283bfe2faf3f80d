//! `ulsock nicd`: the daemon that joins this host to others, and what prepares it. Each subcommand has
//! a file of its own.

mod check;
#[cfg(feature = "etcd")]
mod etcd;
mod key;
mod serve;
mod status;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NicdOptions {
    #[command(subcommand)]
    command: Option<NicdCommand>,
    #[command(flatten)]
    serve: serve::ServeOptions,
}

#[derive(Subcommand)]
enum NicdCommand {
    /// Make this host's key, if it has none, and print its public key
    Key(key::KeyOptions),
    /// Check the peers file, and say what would be done with it
    Check(check::CheckOptions),
    /// Show the hosts and interfaces of the daemon that runs here
    Status(status::StatusOptions),
}

pub fn run(options: &NicdOptions) -> Outcome {
    match &options.command {
        None => serve::run(&options.serve),
        Some(NicdCommand::Key(options)) => key::run(options),
        Some(NicdCommand::Check(options)) => check::run(options),
        Some(NicdCommand::Status(options)) => status::run(options),
    }
}
