//! A child process with its own process group and its output in files. It never outlives the
//! comparison (see `guard`), and never makes it wait longer than a limit.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::guard::Guard;
use super::{procfs, reap};

pub struct Process {
    name: String,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    reaped: bool,
    guard: Rc<Guard>,
}

pub struct Ended {
    pub output: String,
    pub errors: String,
    pub status: ExitStatus,
    /// User and system time of the process and of those that it has waited for.
    pub cpu: Duration,
}

impl Process {
    /// `log` is where its output goes, with the endings `.out` and `.err`.
    pub fn start(command: &mut Command, log: &Path, guard: &Rc<Guard>) -> io::Result<Process> {
        let (output, errors) = (log.with_extension("out"), log.with_extension("err"));
        reap::tie(command);
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?)
            .process_group(0)
            .spawn()?;
        let name = Path::new(command.get_program())
            .file_name()
            .unwrap_or_default();
        let process = Process {
            name: name.to_string_lossy().into_owned(),
            child,
            output,
            errors,
            reaped: false,
            guard: Rc::clone(guard),
        };
        guard.watch(process.child.id())?;
        Ok(process)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time that it and its living descendants have used so far.
    pub fn cpu_so_far(&self) -> Duration {
        procfs::cpu_time(self.child.id())
    }

    /// What it has complained about so far.
    pub fn errors(&self) -> String {
        read(&self.errors)
    }

    /// Polls until `done`; an error says that it ended before, or that the time is over.
    pub fn until(
        &self,
        what: &str,
        deadline: Instant,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), String> {
        while !done() {
            if self.ends_before(Instant::now()) {
                return Err(format!("ended before {what}{}", self.complaint()));
            }
            if Instant::now() > deadline {
                return Err(format!("time is over before {what}{}", self.complaint()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether it has ended by then.
    pub fn ends_before(&self, deadline: Instant) -> bool {
        let pid = Pid::from_child(&self.child);
        pidfd_open(pid, PidfdFlags::empty())
            .is_ok_and(|pidfd| wait_readable(&pidfd, deadline).is_ok())
    }

    /// Asks it to end; its children are its own affair.
    pub fn signal(&self, signal: Signal) {
        // It can only have ended already, and then it is not reaped yet: the number is still its own.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end.
    pub fn end(mut self, deadline: Instant) -> Result<Ended, String> {
        if !self.ends_before(deadline) {
            return Err(format!("did not end in time{}", self.complaint()));
        }
        let (status, cpu) = reap::reap(&self.child).map_err(|error| error.to_string())?;
        self.reaped = true;
        Ok(Ended {
            output: read(&self.output),
            errors: read(&self.errors),
            status,
            cpu,
        })
    }

    /// Waits for its end, and for success.
    pub fn succeed(self, deadline: Instant) -> Result<Ended, String> {
        let name = self.name.clone();
        let ended = self.end(deadline)?;
        match ended.status.success() {
            true => Ok(ended),
            false => Err(format!(
                "{name}: {}{}",
                ended.status,
                last_line(&ended.errors)
            )),
        }
    }

    /// What it said last, as an addition to a message.
    fn complaint(&self) -> String {
        last_line(&self.errors())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // All of these fail only when it is gone already. A group outlives its leader, so it is
        // killed in either case.
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if !self.reaped {
            let _ = self.child.wait();
        }
        let _ = self.guard.forget(self.child.id());
    }
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or(String::new(), |line| format!(": {}", line.trim()))
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn wait_readable(fd: &impl AsFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
