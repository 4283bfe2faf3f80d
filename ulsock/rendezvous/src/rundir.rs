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
    Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RawDir,
    RenameFlags, Stat, accessat, fallocate, fchmod, flock, fstat, ftruncate, lstat, mkdir, mkdirat,
    open, openat, renameat_with, rmdir, statat, unlinkat,
};
use rustix::io::{self, Errno};
use rustix::process::{geteuid, getpid};

use os::fds::InternalFd;
use os::fds::Transient;
use os::guarded::Guarded;
use os::is_regular;
use os::map;
use os::map::Mapping;
use os::may_grow_to;
use os::proc;
use os::random;
use os::text::Text;
use os::users::names_one_user;

/// Prefix of a mailbox's socket; its lock file has the same name and [`LOCK`] behind it.
pub const MAIL: &str = "mail";
/// Prefix of a will (`sockets::calls::exec_handoff`): nobody locks it, so it goes with the next sweep.
pub const WILL: &str = "will";
/// The folder that a host shows to its containers, and the daemon's socket in it.
pub const HOST: &str = "host";
pub const HOST_DOOR: &str = "nicd";
/// Suffix of lock files.
pub const LOCK: &str = ".lock";
/// Prefixes of the tables of a user, whose number follows: who makes offers, who spins, and what was passed on.
pub const OFFERS: &str = "offers";
pub const SPINNERS: &str = "spin";
pub const SLIPS: &str = "slips";
/// Prefix of the folder with the names that a user's programs have registered; the user's number follows.
pub const NAMES: &str = "names";
/// Where a stranger's folder goes that is not empty: behind it stands a number that nobody can guess.
pub const ASIDE: &str = "stranger";
/// So many names are looked at: a process has two. If all are strangers' that takes some 15 ms.
const MOST_NAMES: usize = 8192;
/// Prefix of a file that is renamed once it is complete.
pub const NEW: &str = "new";

/// Why the run directory cannot be used; reads well after its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDirError {
    Create(Errno),
    Open(Errno),
    NotADirectory,
    Stranger {
        owner: u32,
    },
    NotSticky,
    Write(Errno),
    /// The user's table of offers cannot be used.
    Offers(TableError),
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
            RunDirError::Offers(error) => write!(f, "{error}"),
        }?;
        f.write_str(", or set ULSOCK_RUN_DIR to another directory")
    }
}

/// Why an offers table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Not a plain file that its uid alone can write.
    Stranger,
    /// Of another version of ulsock, or broken.
    Format,
    Os(Errno),
}

impl From<Errno> for TableError {
    fn from(errno: Errno) -> TableError {
        TableError::Os(errno)
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Stranger => {
                let uid = geteuid();
                write!(
                    f,
                    "`offers.{uid}` in it is no plain file that uid {uid} alone can write: remove it"
                )
            }
            TableError::Format => {
                f.write_str("the table of offers is of another version of ulsock")
            }
            TableError::Os(errno) => write!(f, "the table of offers: {errno}"),
        }
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

    /// Has somebody created it?
    pub fn exists(path: &Path) -> bool {
        lstat(path).is_ok()
    }

    /// Who may not write there can meet nobody, and should know it before the first connection.
    pub fn may_write(&self) -> Result<(), RunDirError> {
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        accessat(&self.fd, ".", wanted, AtFlags::EACCESS).map_err(RunDirError::Write)
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

    /// A folder of that user's, which nobody else can write.
    pub fn folder_of(&self, name: &str, uid: u32) -> io::Result<RunDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = Transient::new(openat(&self.fd, name, flags, Mode::empty())?);
        let stat = fstat(&fd)?;
        let by_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        if stat.st_uid != uid || by_others {
            return Err(Errno::PERM);
        }
        let fd = fd.into_high()?;
        Ok(RunDir { fd })
    }

    /// Who owns it.
    pub fn owner(&self) -> io::Result<u32> {
        Ok(fstat(&self.fd)?.st_uid)
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
    pub fn create_locked_at(
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
        if !is_table_of(&stat, geteuid().as_raw()) || !may_grow_to(size as u64) {
            return None;
        }
        // In a full tmpfs the first touch of a hole would be a SIGBUS.
        fallocate(&file, FallocateFlags::empty(), 0, size as u64).ok()?;
        Guarded::new(Mapping::new(file.as_fd(), size, map::Access::ReadWrite).ok()?)
    }

    /// Removes what dead processes of our uid left behind, and, if we may, what keeps others from their tables; returns
    /// how many files that were.
    pub fn sweep(&self) -> usize {
        let mut removed = 0;
        self.each_name(|name| removed += usize::from(self.sweep_name(name)));
        removed
    }

    /// The names in it, but not more than anybody should have to pay for: strangers can make as many as they like.
    /// So nothing may depend on having seen all.
    pub fn each_name(&self, each: impl FnMut(&str)) {
        let _ = self.try_each_name(each);
    }

    /// The same for who has to know whether they could be read.
    pub fn try_each_name(&self, mut each: impl FnMut(&str)) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A descriptor of its own: the position in a directory belongs to the open file.
        let fd = openat(&self.fd, ".", flags, Mode::empty()).map(Transient::new)?;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&fd, &mut buffer);
        for _ in 0..MOST_NAMES {
            let Some(entry) = entries.next() else {
                break;
            };
            if let Ok(name) = entry?.file_name().to_str() {
                each(name);
            }
        }
        Ok(())
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
            (Some(OFFERS | SPINNERS | SLIPS | NAMES), _) => {
                self.is_squatted(name) && self.put_away(name).is_ok()
            }
            _ => false,
        }
    }

    /// Is it a user's table by its name, and another user's file? Only where each user has a number of its own: else
    /// strangers look alike.
    fn is_squatted(&self, name: &str) -> bool {
        let user = name.split('.').nth(1).and_then(|uid| uid.parse().ok());
        let owner = self.stat(name).map(|stat| stat.st_uid);
        user.zip(owner.ok())
            .is_some_and(|(user, owner): (u32, u32)| user != owner)
            && proc::users_are_distinct()
    }

    /// Takes what a stranger has put there out of the way. In a sticky directory its owner may do this, and root.
    pub fn put_away(&self, name: &str) -> io::Result<()> {
        let removed = match unlinkat(self, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(self, name, AtFlags::REMOVEDIR),
            other => other,
        };
        match removed {
            Err(Errno::NOTEMPTY) => {
                let aside = Text::format(format_args!("{ASIDE}.{:016x}", random()?))?;
                renameat_with(self, name, self, &*aside, RenameFlags::NOREPLACE)
            }
            Err(Errno::NOENT) => Ok(()),
            other => other,
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

    pub fn stat(&self, name: &str) -> io::Result<Stat> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes `name`; nothing can be done about a failure, and a later sweep tries again.
    pub fn remove(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::empty());
    }
}

impl AsFd for RunDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

/// A plain file that the uid alone can write. One with a second name could be anything of the uid's, which a stranger
/// has linked here (fs.protected_hardlinks may be off).
pub fn is_table_of(stat: &Stat, uid: u32) -> bool {
    let by_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    is_regular(stat) && stat.st_uid == uid && stat.st_nlink == 1 && !by_others
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

#[cfg(any(test, feature = "testing"))]
pub mod scratch;

/// May a daemon run as this user? Only as root, the owner of the run directory or ourselves: it sees all bytes, or says who
/// may.
pub fn may_be_daemon(uid: u32, owner: u32) -> bool {
    let trusted = [0, owner, rustix::process::geteuid().as_raw()];
    trusted.contains(&uid) && names_one_user(uid)
}

#[cfg(test)]
mod tests;
