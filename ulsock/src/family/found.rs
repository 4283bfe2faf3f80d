//! The families of this host that use one run directory, as `ulsock top` finds them.
//!
//! A family's records are in a sealed memfd, which no file name leads to: whoever could open one to write could
//! truncate it under its family (SIGBUS). So they are found where its members hold them, in /proc, as far as we may look
//! there: our own user's programs, and all to root. What is in them is not trusted.

use std::collections::HashSet;
use std::fs::{read_dir, read_link};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, open, Mode, OFlags};
use rustix::io;

use super::{link_of, size};
use crate::rundir::{is_regular, RunDir};
use crate::segment;
use crate::sys::fds::Transient;

/// Calls `each` with the records of every family, once.
pub fn each(dir: &RunDir, mut each: impl FnMut(&Transient)) {
    let Ok(link) = link_of(dir) else { return };
    let link = PathBuf::from(&*link);
    let mut seen = HashSet::new();
    for process in numbers(Path::new("/proc")) {
        let held = find(&process.join("fd"), &link);
        let Some(records) = held.and_then(|path| open_records(&path).ok()) else {
            continue;
        };
        let file = fstat(&records).map(|stat| (stat.st_dev, stat.st_ino));
        if file.is_ok_and(|file| seen.insert(file)) {
            each(&records);
        }
    }
}

/// The entries of a folder that are numbers, the highest first: ours are above the program's.
fn numbers(folder: &Path) -> Vec<PathBuf> {
    let names = read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let path = |number: u32| folder.join(number.to_string());
    numbers.into_iter().map(path).collect()
}

/// A process is of one family.
fn find(fds: &Path, link: &Path) -> Option<PathBuf> {
    let is_it = |fd: &PathBuf| read_link(fd).is_ok_and(|target| target == link);
    numbers(fds).into_iter().find(is_it)
}

/// By now something else may be at that number, which to open could do anything: it is looked at first.
fn open_records(path: &Path) -> io::Result<Transient> {
    let found = Transient::new(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    if !is_regular(&fstat(&found)?) {
        return Err(io::Errno::INVAL);
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let records = Transient::new(open(path, flags, Mode::empty())?);
    segment::check(records.as_fd(), size() as u64).map_err(|_| io::Errno::INVAL)?;
    Ok(records)
}
