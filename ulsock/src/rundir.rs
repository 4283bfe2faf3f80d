//! The run directory, where processes of this host find each other: mailboxes and offers tables
//! live in it.
//!
//! Opened once at start and then used by its descriptor alone, so that a chroot or a rename does not
//! cut us off. It never follows a link and never removes what another uid owns or a live process
//! holds: whatever is alive holds a flock on its file, and the kernel drops the lock with the process.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{
    fallocate, fchmod, flock, fstat, ftruncate, mkdir, mkdirat, open, openat, renameat_with, rmdir,
    statat, unlinkat, Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags,
    RawDir, RenameFlags, Stat, CWD,
};
use rustix::io::{self, Errno};
use rustix::process::{geteuid, getpid};

use crate::sys::fds::{InternalFd, Transient};
use crate::sys::guarded::Guarded;
use crate::sys::map::{self, Mapping};
use crate::sys::text::Text;
use crate::sys::{may_grow_to, random};

/// Prefix of a mailbox's socket; its lock file has the same name and [`LOCK`] behind it.
pub const MAIL: &str = "mail";
/// Prefix of a [will](crate::will): nobody locks it, so it goes with the next sweep.
pub const WILL: &str = "will";
/// The folder that a host shows to its containers, and the daemon's socket in it.
pub const HOST: &str = "host";
pub const HOST_DOOR: &str = "nicd";
/// Suffix of lock files.
pub const LOCK: &str = ".lock";
/// Prefix of a file that is renamed once it is complete.
pub const NEW: &str = "new";

/// Why the run directory cannot be used; reads well after its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDirError {
    Create(Errno),
    Open(Errno),
    NotADirectory,
    Stranger { owner: u32 },
    NotSticky,
    Write(Errno),
}

impl fmt::Display for RunDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunDirError::Create(errno) => {
                write!(f, "cannot be created ({errno}): create it with mode 1777")
            }
            RunDirError::Open(errno) => write!(f, "cannot be opened ({errno}): make it readable"),
            RunDirError::NotADirectory => write!(f, "is no directory, or a link: remove it"),
            RunDirError::Stranger { owner } => write!(f, "belongs to uid {owner}: give it to root"),
            RunDirError::NotSticky => {
                write!(f, "lets others remove files: set its sticky bit (chmod +t)")
            }
            RunDirError::Write(Errno::ACCESS | Errno::PERM) => {
                let uid = geteuid().as_raw();
                write!(f, "uid {uid} may not write there: give it mode 1777")
            }
            RunDirError::Write(Errno::NOSPC | Errno::DQUOT) => write!(f, "is full: make room"),
            RunDirError::Write(errno) => write!(f, "no room for our tables ({errno})"),
        }?;
        f.write_str(", or set ULSOCK_RUN_DIR to another directory")
    }
}

/// The open run directory.
#[derive(Debug)]
pub struct RunDir {
    fd: InternalFd,
}

impl RunDir {
    /// Opens the run directory at `path`, creating it with mode 1777 when it is missing.
    pub fn open(path: &Path) -> Result<RunDir, RunDirError> {
        let fd = match open_directory(path) {
            Err(RunDirError::Open(Errno::NOENT)) => {
                create(path).map_err(RunDirError::Create)?;
                open_directory(path)
            }
            other => other,
        }?;
        let fd = fd.into_high().map_err(RunDirError::Open)?;
        check(&fstat(&fd).map_err(RunDirError::Open)?)?;
        Ok(RunDir { fd })
    }

    /// Another handle on the same directory.
    pub fn duplicate(&self) -> io::Result<RunDir> {
        let fd = self.fd.duplicate()?;
        Ok(RunDir { fd })
    }

    /// A folder in it that we alone can write and everybody can read, made if it is missing.
    pub fn folder(&self, name: &str) -> io::Result<RunDir> {
        let mode = Mode::from_raw_mode(0o755);
        match mkdirat(&self.fd, name, mode) {
            Err(Errno::EXIST) => {}
            other => other?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = Transient::new(openat(&self.fd, name, flags, Mode::empty())?);
        if !is_ours(&fstat(&fd)?) {
            return Err(Errno::PERM);
        }
        fchmod(&fd, mode)?;
        let fd = fd.into_high()?;
        Ok(RunDir { fd })
    }

    pub fn folder_has(&self, folder: &str, name: &str) -> bool {
        Text::format(format_args!("{folder}/{name}")).is_ok_and(|path| self.stat(&path).is_ok())
    }

    /// Creates `prefix.<pid>.<random>` of `size` bytes, readable by all, and holds a shared lock on
    /// it for as long as any copy of the descriptor is open, in this process or a forked one.
    pub fn create_locked(&self, prefix: &str, size: u64) -> io::Result<(InternalFd, Text)> {
        let pid = getpid();
        for _ in 0..8 {
            let name = Text::format(format_args!("{prefix}.{pid}.{:016x}", random()?))?;
            if let Some(fd) = self.create_locked_at(&name, Mode::from_raw_mode(0o644), size)? {
                return Ok((fd, name));
            }
        }
        Err(Errno::AGAIN)
    }

    /// Creates and locks the file `name`. `None`: the name exists, or a sweeper came between our
    /// creating and our locking it.
    pub(crate) fn create_locked_at(
        &self,
        name: &str,
        mode: Mode,
        size: u64,
    ) -> io::Result<Option<InternalFd>> {
        if !may_grow_to(size) {
            return Err(Errno::FBIG);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = match openat(&self.fd, name, flags | OFlags::CLOEXEC, mode) {
            Ok(fd) => Transient::new(fd),
            Err(Errno::EXIST) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        match flock(&fd, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            other => other?,
        }
        if fstat(&fd)?.st_nlink == 0 {
            return Ok(None);
        }
        let made = fchmod(&fd, mode)
            .and_then(|()| ftruncate(&fd, size))
            .and_then(|()| fd.into_high());
        if made.is_err() {
            self.remove(name);
        }
        made.map(Some)
    }

    /// Maps a table that all processes of our uid share and nobody else, made if need be. `None`: it is a stranger's, or
    /// there is no room for it. What is in it may be lost at any time.
    pub fn map_own(&self, name: &str, size: usize) -> Option<Guarded> {
        // Of a file of this name a stranger may have a lease, which would let us wait.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&self.fd, name, flags | OFlags::CLOEXEC, mode).ok()?;
        let file = Transient::new(file);
        let stat = fstat(&file).ok()?;
        if !is_ours(&stat) || !is_regular(&stat) || !may_grow_to(size as u64) {
            return None;
        }
        // In a full tmpfs the first touch of a hole would be a SIGBUS.
        fallocate(&file, FallocateFlags::empty(), 0, size as u64).ok()?;
        Guarded::new(Mapping::new(file.as_fd(), size, map::Access::ReadWrite).ok()?)
    }

    /// Removes what dead processes of our uid left behind, and returns how many files that were.
    pub fn sweep(&self) -> usize {
        let mut removed = 0;
        self.each_name(|name| removed += usize::from(self.sweep_name(name)));
        removed
    }

    pub(crate) fn each_name(&self, mut each: impl FnMut(&str)) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A descriptor of its own: the position in a directory belongs to the open file.
        let Ok(fd) = openat(&self.fd, ".", flags, Mode::empty()).map(Transient::new) else {
            return;
        };
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            if let Ok(name) = entry.file_name().to_str() {
                each(name);
            }
        }
    }

    fn sweep_name(&self, name: &str) -> bool {
        match (name.split('.').next(), name.strip_suffix(LOCK)) {
            (Some(NEW | WILL), None) => self.take_dead(name).is_some_and(|_lock| {
                self.remove(name);
                true
            }),
            // The socket goes first: while it exists its lock file tells whether it lives.
            (Some(MAIL), Some(socket)) => self.take_dead(name).is_some_and(|_lock| {
                self.remove(socket);
                self.remove(name);
                true
            }),
            (Some(MAIL), None) => self.remove_lone_mailbox(name),
            _ => false,
        }
    }

    /// A mailbox is born after its lock file and dies before it: one without is litter.
    fn remove_lone_mailbox(&self, name: &str) -> bool {
        let Ok(lock) = Text::format(format_args!("{name}{LOCK}")) else {
            return false;
        };
        let ours = self.stat(name).is_ok_and(|stat| is_ours(&stat));
        let alone = matches!(self.stat(&lock), Err(Errno::NOENT));
        if ours && alone {
            self.remove(name);
        }
        ours && alone
    }

    /// Locks the file `name` of ours against its owner, which works only if there is none any more.
    /// The lock is held until the result is dropped, so that two sweepers do not meet.
    fn take_dead(&self, name: &str) -> Option<Transient> {
        let before = self.stat(name).ok()?;
        if !is_ours(&before) || !is_regular(&before) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = Transient::new(openat(&self.fd, name, flags, Mode::empty()).ok()?);
        flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
        let (locked, named) = (fstat(&fd).ok()?, self.stat(name).ok()?);
        let same = (locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino);
        same.then_some(fd)
    }

    /// Whether the holder of the lock file `name` of our uid is gone. In doubt it lives.
    pub fn is_dead(&self, name: &str) -> bool {
        match self.stat(name) {
            Ok(_) => self.take_dead(name).is_some(),
            Err(errno) => errno == Errno::NOENT,
        }
    }

    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes `name`; nothing can be done about a failure, and a later sweep tries again.
    pub(crate) fn remove(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::empty());
    }
}

impl AsFd for RunDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(crate) fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn open_directory(path: &Path) -> Result<Transient, RunDirError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(fd) => Ok(Transient::new(fd)),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(RunDirError::NotADirectory),
        Err(errno) => Err(RunDirError::Open(errno)),
    }
}

/// At load: a server that starts as root and then gives its privileges up must not leave the making
/// of the directory to a uid that others do not trust.
pub fn make_if_root(path: &Path) {
    if rustix::process::geteuid().is_root() && rustix::fs::access(path, Access::EXISTS).is_err() {
        let _ = create(path);
    }
}

/// Creates the directory under another name and renames it, so that nobody ever sees it with the
/// mode that our umask left over.
fn create(path: &Path) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(&*Text::format(format_args!(".{:016x}", random()?))?);
    mkdir(&new, Mode::RWXU)?;
    let published = publish(Path::new(&new), path);
    if published.is_err() {
        let _ = rmdir(&new);
    }
    match published {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

fn publish(new: &Path, path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = Transient::new(open(new, flags, Mode::empty())?);
    fchmod(&fd, Mode::from_raw_mode(0o1777))?;
    renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE)
}

fn check(stat: &Stat) -> Result<(), RunDirError> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(RunDirError::NotADirectory);
    }
    if stat.st_uid != 0 && !is_ours(stat) {
        return Err(RunDirError::Stranger { owner: stat.st_uid });
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX) {
        return Err(RunDirError::NotSticky);
    }
    Ok(())
}

/// A run directory of a test's own, removed with everything in it.
#[cfg(test)]
pub(crate) mod scratch {
    use super::RunDir;
    use std::ops::Deref;
    use std::path::PathBuf;

    pub struct Scratch {
        pub path: PathBuf,
        dir: RunDir,
    }

    impl Scratch {
        pub fn new() -> Scratch {
            let name = format!("ulsock-test-{:016x}", crate::sys::random().unwrap());
            let path = std::env::temp_dir().join(name);
            let dir = RunDir::open(&path).unwrap();
            Scratch { path, dir }
        }

        pub fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.path).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        }
    }

    impl Deref for Scratch {
        type Target = RunDir;
        fn deref(&self) -> &RunDir {
            &self.dir
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scratch::Scratch;
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn is_created_for_everybody() {
        let dir = Scratch::new();
        let mode = fs::metadata(&dir.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        assert!(RunDir::open(&dir.path).is_ok(), "and opens again");
        let parent = dir.path.parent().unwrap();
        let stem = dir.path.file_name().unwrap().to_str().unwrap().to_owned() + ".";
        let litter = fs::read_dir(parent).unwrap().any(|entry| {
            let name = entry.unwrap().file_name();
            name.to_str().unwrap().starts_with(&stem)
        });
        assert!(!litter);
    }

    #[test]
    fn refuses_what_others_could_change() {
        let dir = Scratch::new();
        fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(RunDir::open(&dir.path).unwrap_err(), RunDirError::NotSticky);
        let link = dir.path.join("link");
        symlink(&dir.path, &link).unwrap();
        assert_eq!(RunDir::open(&link).unwrap_err(), RunDirError::NotADirectory);
        let file = dir.path.join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(RunDir::open(&file).unwrap_err(), RunDirError::NotADirectory);
    }

    #[test]
    fn sweeps_the_dead_and_spares_the_living() {
        let dir = Scratch::new();
        let (alive, name) = dir.create_locked(NEW, 4096).unwrap();
        assert_eq!(fstat(&alive).unwrap().st_size, 4096);
        drop(dir.create_locked(WILL, 0).unwrap());
        drop(dir.create_locked(NEW, 0).unwrap());
        fs::write(dir.path.join("mail.1.00.lock"), "").unwrap();
        fs::write(dir.path.join("mail.1.00"), "").unwrap();
        fs::write(dir.path.join("mail.2.00"), "").unwrap();
        fs::write(dir.path.join("offers.0"), "").unwrap();
        assert_eq!(dir.sweep(), 4);
        let mut left = dir.names();
        left.sort();
        assert_eq!(left, [&*name, "offers.0"]);
        assert!(!dir.is_dead(&name));
        drop(alive);
        assert!(dir.is_dead(&name));
        assert!(dir.is_dead("new.9.absent"));
        assert_eq!(dir.sweep(), 1);
    }

    #[test]
    fn nobody_waits_for_a_table_under_a_lease() {
        let dir = Scratch::new();
        assert!(dir.map_own("table", 4096).is_some());
        let path = dir.path.join("table");
        let file = fs::File::options().write(true).open(path).unwrap();
        // include/uapi/asm-generic/fcntl.h: which signal says that somebody wants the file; this one is ignored.
        const F_SETSIG: i32 = 10;
        for (command, value) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, libc::F_WRLCK)] {
            // SAFETY: a file of our own, and numbers.
            assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), command, value) }, 0);
        }
        assert!(dir.map_own("table", 4096).is_none());
        drop(file);
        assert!(dir.map_own("table", 4096).is_some());
    }
}
