//! Ends what the comparison started if the comparison itself is killed, by Ctrl-C or worse.
//!
//! A second process of this command reads the names of the process groups from a pipe. The kernel
//! closes the pipe with the comparison, whatever ended it; then the guard kills the groups that are
//! left and removes the work folders. At a proper end nothing is left but these.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};

/// The hidden subcommand that the guard runs as.
pub const SUBCOMMAND: &str = "compare-guard";

/// The comparison's end of the pipe.
pub struct Guard {
    pipe: Mutex<Option<ChildStdin>>,
    child: Child,
}

impl Guard {
    /// The folders are removed at the end.
    pub fn start(folders: &[PathBuf]) -> io::Result<Guard> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SUBCOMMAND)
            .args(folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the terminal's group: not to the one that has to act on it.
            .process_group(0)
            .spawn()?;
        let pipe = Mutex::new(child.stdin.take());
        Ok(Guard { pipe, child })
    }

    /// The group is to be killed if we go away.
    pub fn watch(&self, group: u32) -> io::Result<()> {
        self.tell(&format!("+{group}\n"))
    }

    /// The group has ended.
    pub fn forget(&self, group: u32) -> io::Result<()> {
        self.tell(&format!("-{group}\n"))
    }

    fn tell(&self, line: &str) -> io::Result<()> {
        let mut pipe = self
            .pipe
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        match pipe.as_mut() {
            Some(pipe) => pipe.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Closes the pipe: the guard tidies up, and we wait until it has.
        if let Ok(pipe) = self.pipe.get_mut() {
            pipe.take();
        }
        // It can only be gone already.
        let _ = self.child.wait();
    }
}

/// The guard itself: reads until the comparison has gone.
pub fn run(folders: &[PathBuf]) -> ExitCode {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let group = |text: &str| text.parse::<i32>().ok();
        match line.split_at_checked(1) {
            Some(("+", text)) => groups.extend(group(text)),
            Some(("-", text)) => groups.retain(|known| Some(*known) != group(text)),
            _ => {}
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    folders.iter().for_each(|folder| remove(folder));
    ExitCode::SUCCESS
}

/// A killed process may still write a file while its folder is being removed.
fn remove(folder: &Path) {
    const ATTEMPTS: u32 = 50;
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
