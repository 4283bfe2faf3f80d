//! `ulsock nicd`: the daemon that joins this host to others, and what prepares it. Each subcommand has
//! a file of its own.

mod access;
mod check;
#[cfg(feature = "etcd")]
mod etcd;
mod join;
mod key;
mod peers;
mod place;
#[cfg(feature = "etcd")]
mod registry;
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
    /// Check the peers, and say what would be done with them
    Check(check::CheckOptions),
    /// Announce this host where the cluster keeps its hosts
    Join(join::JoinOptions),
    /// Take this host out of there
    Leave(join::LeaveOptions),
    /// Show the hosts and interfaces of the daemon that runs here
    Status(status::StatusOptions),
}

pub fn run(options: &NicdOptions) -> Outcome {
    match &options.command {
        None => serve::run(&options.serve),
        Some(NicdCommand::Key(options)) => key::run(options),
        Some(NicdCommand::Check(options)) => check::run(options),
        Some(NicdCommand::Join(options)) => join::run(options),
        Some(NicdCommand::Leave(options)) => join::leave(options),
        Some(NicdCommand::Status(options)) => status::run(options),
    }
}
