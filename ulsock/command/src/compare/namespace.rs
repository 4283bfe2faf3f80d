//! Network namespaces without names: each lives as long as we hold it or a process is in it, so that none
//! is left behind whatever ends the comparison.
#![expect(
    unsafe_code,
    reason = "unshare can separate more than networks, so rustix has it as unsafe only"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

pub struct Namespace {
    file: File,
}

impl Namespace {
    /// With nothing but a loopback device, which is down.
    pub fn new() -> io::Result<Namespace> {
        // A thread of its own: who unshares has left its old namespace.
        let made = std::thread::spawn(|| {
            // SAFETY: only the network is separated; file descriptors stay common.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            current()
        });
        let broken = |_| io::Error::other("the thread that makes a network namespace failed");
        let file = made.join().map_err(broken)??;
        Ok(Namespace { file })
    }

    /// Calls `inside` with this thread in the namespace; what it starts stays there.
    pub fn enter<T>(&self, inside: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let before = current()?;
        set(&self.file)?;
        let result = inside();
        set(&before)?;
        result
    }

    /// By which other programs can open it while we live.
    pub fn path(&self) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
    }

    /// Lets ip(8) do a command inside.
    pub fn ip(&self, command: &str) -> io::Result<()> {
        let words = command.split_whitespace();
        let output = self.enter(|| Command::new("ip").args(words).output())?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("ip {command}: {}", errors.trim())))
    }
}

fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn set(namespace: &File) -> io::Result<()> {
    let network = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), network)?)
}
