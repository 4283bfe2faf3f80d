//! What an attacker knows, and how it talks to the harness: by lines on stdout.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::unix;
use crate::args::Args;
use crate::rng::Rng;

/// The line that asks for a call of the victim's, with the port.
pub const CALL: &str = "call ";
/// The line after which the attacker only holds what it has.
pub const DONE: &str = "done";
/// The line that says that the attack could not be made.
pub const FAILED: &str = "failed: ";

pub struct Scene {
    /// Where the victim listens.
    pub port: u16,
    pub run_dir: PathBuf,
    pub victim_uid: u32,
    /// Whom the attacker runs as.
    pub uid: u32,
    /// A library that every user can read, for an accomplice.
    pub library: PathBuf,
    pub rng: Rng,
}

impl Scene {
    /// From the command line of the attacker.
    pub fn new(args: &Args) -> Scene {
        Scene {
            port: args.get("port"),
            run_dir: args.get("run"),
            victim_uid: args.get("victim"),
            uid: args.get("uid"),
            library: args.get("library"),
            rng: Rng::new(args.get("seed"), 0),
        }
    }

    /// From here on as the user that the attacker shall be.
    pub fn change_user(&self) {
        if self.uid != self.victim_uid {
            unix::become_user(self.uid);
        }
    }

    /// The victim shall call this port.
    pub fn ask_for_call(&self, port: u16) {
        say(&format!("{CALL}{port}"));
    }
}

/// A line for the harness.
pub fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("stdout");
}

/// What is being done, for who reads the output of an attack that was found to succeed.
pub fn note(what: std::fmt::Arguments<'_>) {
    println!("# {what}");
}

/// The attack is over; all that it has is held until the harness ends it.
pub fn hold() -> ! {
    say(DONE);
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
