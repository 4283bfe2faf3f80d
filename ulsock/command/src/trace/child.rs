//! The program that is recorded, as our child: it gets the signals that are sent to us, and we end as it does.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitCode, ExitStatus};
use std::time::Duration;

use os::mask::bit;
use os::signals::{self, Taken};
use rustix::process::{Pid, Signal, kill_process};

use super::recordings::Recordings;
use crate::failure::Failure;

/// What somebody may send to a program, and what tells that it has ended.
const SIGNALS: u64 = bit(libc::SIGHUP)
    | bit(libc::SIGINT)
    | bit(libc::SIGQUIT)
    | bit(libc::SIGTERM)
    | bit(libc::SIGUSR1)
    | bit(libc::SIGUSR2)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGCHLD);
/// A signal that tells of the end can be lost in that of another child that we were born with.
const LOOK: Duration = Duration::from_secs(1);

pub struct Child(process::Child);

impl Child {
    pub fn start(
        program: &[OsString],
        preloaded: &OsStr,
        recordings: &Recordings,
    ) -> Result<Child, Failure> {
        let (name, arguments) = program
            .split_first()
            .ok_or_else(|| Failure::setup("no program given"))?;
        let (variable, value) = recordings.variable();
        let child = Command::new(name)
            .args(arguments)
            .env("LD_PRELOAD", preloaded)
            .env(variable, value)
            .spawn();
        // Not before, for the program would inherit it. Its end is looked for before the first wait.
        signals::block(SIGNALS);
        child.map(Child).map_err(|error| {
            // As env(1) does.
            let status = match error.kind() {
                ErrorKind::NotFound => 127,
                _ => 126,
            };
            let name = name.to_string_lossy();
            Failure::new(status, format!("cannot run {name}: {error}"))
        })
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Until it ends.
    pub fn wait(mut self) -> Result<ExitStatus, Failure> {
        let failed =
            |error: io::Error| Failure::work(format!("cannot wait for the program: {error}"));
        loop {
            if let Some(status) = self.0.try_wait().map_err(failed)? {
                return Ok(status);
            }
            let taken = signals::take(SIGNALS, LOOK).map_err(|error| failed(error.into()))?;
            if let Some(taken) = taken {
                self.pass_on(taken);
            }
        }
    }

    /// What the terminal sends it has sent to the program as well.
    fn pass_on(&self, taken: Taken) {
        let Taken { signal, by_process } = taken;
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let signal = Signal::from_named_raw(signal).filter(|it| *it != Signal::CHILD);
        if let (true, Some(pid), Some(signal)) = (by_process, pid, signal) {
            // It may have ended; it is not waited for yet, so the number is still its own.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Our own end, after everything else.
pub fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        signals::end_by(signal);
        // As a shell says it.
        return ExitCode::from(128u8.saturating_add(signal as u8));
    }
    ExitCode::from(status.code().unwrap_or(1) as u8)
}
