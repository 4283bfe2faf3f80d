//! The families of this host that use one run directory, as `ulsock top` finds them.
//!
//! A family's records are in a sealed memfd, which no file name leads to: whoever could open one to write could
//! truncate it under its family (SIGBUS). So they are found where its members hold them, in /proc, as far as we may look
//! there: our own user's programs, and all to root. What is in them is not trusted.

use std::collections::HashSet;
use std::fs::{read_dir, read_link};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io;

use super::{link_of, size};
use os::fds::Transient;
use os::is_regular;
use rendezvous::rundir::RunDir;
use shm::segment;

/// What /proc says of the memory of any family begins so.
const ANY: &str = "/memfd:ulsock-family.";

/// The memory of a family.
pub struct FoundFamily {
    /// One of its processes, as it was found.
    pub pid: u32,
    /// No other family of this host has the same.
    pub inode: u64,
    pub records: Transient,
}

/// Which programs are looked for, of those that may be looked at.
#[derive(Clone, Debug)]
pub enum Reach {
    /// Those that meet in one run directory, by what /proc says where their memory is open.
    Directory(Option<PathBuf>),
    /// Also those in containers with run directories of their own.
    All,
}

impl Reach {
    pub fn of(dir: &RunDir) -> Reach {
        Reach::Directory(link_of(dir).ok().map(|link| PathBuf::from(&*link)))
    }

    fn has(&self, target: &Path) -> bool {
        match self {
            Reach::Directory(link) => link.as_deref() == Some(target),
            Reach::All => target
                .as_os_str()
                .as_encoded_bytes()
                .starts_with(ANY.as_bytes()),
        }
    }
}

/// Calls `each` with the records of every family, once. The oldest process that is found of a family names it. `false`:
/// some were not found because we are short of descriptors or of memory.
pub fn each(reach: &Reach, mut each: impl FnMut(FoundFamily)) -> bool {
    let mut seen = HashSet::new();
    let mut is_complete = true;
    for process in numbers(Path::new("/proc")).into_iter().rev() {
        let number = process.file_name().and_then(|name| name.to_str());
        let Some(pid) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        for path in find(&process.join("fd"), reach) {
            let records = match open_records(&path) {
                Ok(records) => records,
                Err(error) => {
                    let is_ours = [io::Errno::MFILE, io::Errno::NFILE, io::Errno::NOMEM];
                    is_complete &= !is_ours.contains(&error);
                    continue;
                }
            };
            let Ok(file) = fstat(&records) else { continue };
            if seen.insert(file.st_ino) {
                let inode = file.st_ino;
                each(FoundFamily {
                    pid,
                    inode,
                    records,
                });
            }
        }
    }
    // Short of descriptors, we have read no folder either.
    is_complete && read_dir("/proc/self").is_ok()
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

/// A process is of one family; of two, if it is written for ulsock and preloaded, too. Those who only look, as we do, may
/// hold the memory of many.
fn find<'a>(fds: &Path, reach: &'a Reach) -> impl Iterator<Item = PathBuf> + use<'a> {
    let is_it = |fd: &PathBuf| read_link(fd).is_ok_and(|target| reach.has(&target));
    let may_write = |fd: &PathBuf| fd.symlink_metadata().is_ok_and(|it| it.mode() & 0o200 != 0);
    numbers(fds)
        .into_iter()
        .filter(is_it)
        .filter(may_write)
        .take(2)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::observe::{self, Follower};
    use crate::state::process_group::{Header, MAGIC, ProcessGroup, name_of, offset_of};
    use crate::state::record::Record;
    use netstack::shared_memory;
    use rendezvous::rundir::scratch::{Random, Scratch};
    use shm::segment::Segment;

    fn count(dir: &RunDir) -> usize {
        let mut found = 0;
        each(&Reach::of(dir), |_| found += 1);
        found
    }

    #[test]
    fn families_of_one_run_directory_are_found() {
        let (dir, other) = (Scratch::new(), Scratch::new());
        assert_eq!(count(&dir), 0);
        let family = ProcessGroup::create(&dir).unwrap();
        assert_eq!((count(&dir), count(&other)), (1, 0));
        let elsewhere = ProcessGroup::create(&other).unwrap();
        let mut inodes = Vec::new();
        each(&Reach::All, |found| inodes.push(found.inode));
        for family in [&family, &elsewhere] {
            let inode = fstat(&family.memory).unwrap().st_ino;
            assert!(inodes.contains(&inode), "whatever its directory");
        }
        drop(elsewhere);
        assert!(dir.names().is_empty(), "nothing that others could truncate");
        let second = ProcessGroup::create(&dir).unwrap();
        assert_eq!(count(&dir), 2, "by the other door");
        drop((family, second));
        assert_eq!(count(&dir), 0);
    }

    #[test]
    fn what_only_has_the_name_is_none() {
        let dir = Scratch::new();
        let name = name_of(&dir).unwrap();
        let _short = Segment::create_named(&name, 4096).unwrap();
        assert_eq!(count(&dir), 0);
    }

    #[test]
    fn any_content_is_survived() {
        let dir = Scratch::new();
        let name = name_of(&dir).unwrap();
        let (segment, _held) = Segment::create_named(&name, size() as u64).unwrap();
        let mut random = Random(5);
        let words = (offset_of(64)) / 8;
        for round in 0..50 {
            for n in 0..words {
                let value = [random.number(), random.number() % 8, 0, u64::MAX][round % 4];
                // SAFETY: inside the segment, aligned, and nobody else's.
                unsafe { segment.base().cast::<u64>().add(n).write(value) };
            }
            // SAFETY: at the beginning of the segment, which is mapped, and larger.
            let header: &Header = unsafe { shared_memory::at(segment.base()) };
            let size = size_of::<Record>() as u32;
            header
                .magic
                .store(MAGIC, std::sync::atomic::Ordering::Relaxed);
            header
                .record_size
                .store(size, std::sync::atomic::Ordering::Relaxed);
            header
                .highest
                .fetch_and(127, std::sync::atomic::Ordering::Relaxed);
            observe::live(&Reach::of(&dir));
            let mut follower = Follower::with_past();
            follower.find_programs(&Reach::of(&dir));
            follower.news();
        }
    }
}
