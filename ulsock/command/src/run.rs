//! `ulsock run`: checks the configuration, sets the environment, and becomes the program.
//! It refuses to start on a bad configuration; a program preloaded by hand would run on kernel TCP.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::{Args, ValueEnum, ValueHint};

use crate::failure::{Failure, Outcome};
use crate::install::{Install, LIBRARY};
use crate::preload;

#[derive(Args)]
#[command(override_usage = "ulsock run [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
pub struct RunOptions {
    /// What waiting is tuned for (sets ULSOCK_PROFILE)
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Report on stderr, when a process ends, what its connections did (sets ULSOCK_REPORT)
    #[arg(long)]
    report: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    Latency,
    Balanced,
    Throughput,
    Frugal,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Balanced => "balanced",
            Profile::Throughput => "throughput",
            Profile::Frugal => "frugal",
        }
    }
}

/// Returns only when the program could not be started.
pub fn run(options: RunOptions) -> Outcome {
    let variables = variables(&options);
    preload::check_configuration(&variables)?;
    let install = Install::locate()?;
    install.prepare(&[LIBRARY])?;
    let preloaded = preload::with_library(&install.library()?, std::env::var_os("LD_PRELOAD"))?;
    let (program, arguments) = options
        .program
        .split_first()
        .ok_or_else(|| Failure::setup("no program given"))?;
    let error = Command::new(program)
        .args(arguments)
        .envs(variables)
        .env("LD_PRELOAD", preloaded)
        .exec();
    // As env(1) does.
    let status = if error.kind() == ErrorKind::NotFound {
        127
    } else {
        126
    };
    Err(Failure::new(
        status,
        format!("cannot run {}: {error}", program.to_string_lossy()),
    ))
}

/// The options as variables: what the check sees, and what the program will see.
fn variables(options: &RunOptions) -> Vec<(&'static str, &'static str)> {
    let profile = options.profile.map(|it| ("ULSOCK_PROFILE", it.name()));
    let report = options.report.then_some(("ULSOCK_REPORT", "stderr"));
    profile.into_iter().chain(report).collect()
}
