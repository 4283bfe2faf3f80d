//! A child process that never outlives the comparison and never makes it wait longer than a limit.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use super::reap;

pub struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    reaped: bool,
}

pub struct Ended {
    pub output: String,
    pub status: ExitStatus,
    pub cpu: Duration,
}

impl Process {
    pub fn start(command: &mut Command) -> io::Result<Process> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Process {
            child,
            stdout: BufReader::new(stdout),
            reaped: false,
        })
    }

    /// The next line that it prints.
    pub fn line(&mut self, deadline: Instant) -> io::Result<String> {
        wait_readable(self.stdout.get_ref(), deadline)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits for its end; what it printed must fit into a pipe's buffer.
    pub fn end(mut self, deadline: Instant) -> io::Result<Ended> {
        let pid = Pid::from_child(&self.child);
        wait_readable(&pidfd_open(pid, PidfdFlags::empty())?, deadline)?;
        let (status, cpu) = reap::reap(&self.child)?;
        self.reaped = true;
        let mut output = String::new();
        self.stdout.read_to_string(&mut output)?;
        Ok(Ended {
            output,
            status,
            cpu,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            // Both fail only when it is gone already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
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
