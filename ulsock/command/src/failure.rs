//! Why a subcommand gives up: one line for the user, and the exit status.

use std::fmt;
use std::process::ExitCode;

pub type Outcome = Result<ExitCode, Failure>;

pub struct Failure {
    pub status: u8,
    message: String,
}

impl Failure {
    /// The configuration or the installation is wrong: nothing was started.
    pub const SETUP: u8 = 2;
    /// It was started and went wrong.
    pub const WORK: u8 = 1;

    pub fn new(status: u8, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: message.into(),
        }
    }

    pub fn setup(message: impl Into<String>) -> Failure {
        Failure::new(Failure::SETUP, message)
    }

    pub fn work(message: impl Into<String>) -> Failure {
        Failure::new(Failure::WORK, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}
