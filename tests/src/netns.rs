//! Network namespaces, and mount namespaces, without names: each lives as long as somebody holds it or a process
//! is in it, so that none is left behind whatever ends a test.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One namespace; only its loopback device is there at first, and it is down.
pub struct Namespace {
    file: File,
    mounts: Option<Mounts>,
}

impl Namespace {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        // A thread of its own: who unshares has left its old namespace.
        let made = std::thread::spawn(|| {
            // SAFETY: a plain integer.
            match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                0 => current(),
                _ => Err(io::Error::last_os_error()),
            }
        });
        let file = made.join().expect("the thread that makes a namespace")?;
        Ok(Self { file, mounts: None })
    }

    /// The same network, without its mounts.
    pub fn duplicate(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file, mounts: None })
    }

    /// Those who are in it see other file systems than the rest.
    pub fn with(mut self, mounts: Mounts) -> Self {
        self.mounts = Some(mounts);
        self
    }

    /// Calls `inside` with this thread in the namespace; what it starts stays there.
    pub fn enter<T>(&self, inside: impl FnOnce() -> T) -> io::Result<T> {
        let before = current()?;
        set(&self.file, libc::CLONE_NEWNET)?;
        let result = match &self.mounts {
            Some(mounts) => mounts.enter(inside),
            None => Ok(inside()),
        };
        set(&before, libc::CLONE_NEWNET)?;
        result
    }

    /// By which other programs can open it while we live.
    pub fn path(&self) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
    }

    /// Lets ip(8) do these commands inside, one on each line; `batch` is a file for them.
    pub fn ip(&self, commands: &str, batch: &Path) {
        std::fs::write(batch, commands).expect("a file for ip");
        let run = || Command::new("ip").arg("-batch").arg(batch).output();
        let output = self.enter(run).expect("setns").expect("ip runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip: {errors}in {commands}");
    }
}

fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn set(namespace: &File, kind: i32) -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) })
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A mount namespace: a copy of ours at first.
pub struct Mounts {
    file: File,
}

impl Mounts {
    /// A new one, in which a shell has done these `commands`.
    pub fn new(commands: &str) -> io::Result<Self> {
        let commands = format!("set -e; mount --make-rprivate /; {commands}");
        let make = move || {
            // SAFETY: a plain integer.
            check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
            let shell = Command::new("sh").arg("-c").arg(&commands).output()?;
            let errors = String::from_utf8_lossy(&shell.stderr);
            assert!(shell.status.success(), "{errors}in {commands}");
            Ok(Self { file: mounts()? })
        };
        std::thread::spawn(make).join().expect("the thread")
    }

    /// A thread can change its own only if it shares its root and working directory with no other.
    fn enter<T>(&self, inside: impl FnOnce() -> T) -> io::Result<T> {
        // SAFETY: a plain integer.
        check(unsafe { libc::unshare(libc::CLONE_FS) })?;
        let (before, directory) = (mounts()?, File::open(".")?);
        set(&self.file, libc::CLONE_NEWNS)?;
        let result = inside();
        set(&before, libc::CLONE_NEWNS)?;
        // SAFETY: a plain integer.
        check(unsafe { libc::fchdir(directory.as_raw_fd()) })?;
        Ok(result)
    }
}

fn mounts() -> io::Result<File> {
    File::open("/proc/thread-self/ns/mnt")
}
