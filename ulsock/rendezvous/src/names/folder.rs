//! The folder with the names of one user, which that user alone can write.
//!
//! A file gets its name when it is complete and its owner holds the lock of its life; that lock is never taken again, so who
//! finds it free knows that the owner is gone for good. Who removes such a file holds the other lock meanwhile: else a second
//! remover could take away what has been registered in its place.
//!
//! Nobody keeps a folder open: who watches it would not hear that it was removed.

use std::os::fd::AsFd;
use std::sync::Arc;

use os::byte_lock::{hold, is_held};
use os::fds::{InternalFd, Transient};
use os::{may_grow_to, random};
use rustix::fs::{Mode, OFlags, RenameFlags, Stat, fchmod, fstat, openat, renameat_with};
use rustix::io::{self, Errno};
use rustix::process::{geteuid, getpid};

use super::label::Label;
use super::record::{Record, SIZE};
use crate::rundir::{NAMES, NEW, RunDir, is_table_of};

/// The bytes of a file that are locked: by its owner, and by who removes it.
const LIFE: u8 = 0;
const REMOVAL: u8 = 1;

/// Others of our user may remove the same file, or register and end, as often as they are quicker.
const TRIES: usize = 1000;

#[derive(Debug)]
pub struct Folder {
    dir: RunDir,
    pub uid: u32,
}

/// Why a name could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPublished {
    /// A living process of our user has it.
    Taken {
        pid: u32,
    },
    Os(Errno),
}

impl From<Errno> for NotPublished {
    fn from(errno: Errno) -> NotPublished {
        NotPublished::Os(errno)
    }
}

/// A name that is ours as long as this lives; and as long as a child lives that has inherited it.
#[derive(Debug)]
pub struct Held {
    run_dir: Arc<RunDir>,
    uid: u32,
    file: InternalFd,
    name: String,
    pid: u32,
}

impl Folder {
    /// Our own, made if it is missing. EPERM: somebody else has put something there.
    pub fn own(run_dir: &RunDir) -> io::Result<Folder> {
        let uid = geteuid().as_raw();
        let dir = match run_dir.folder(&file_name(uid)) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(Errno::PERM),
            other => other?,
        };
        Ok(Folder { dir, uid })
    }

    /// That of a user, if it exists and only that user can write there.
    pub fn of(run_dir: &RunDir, uid: u32) -> io::Result<Folder> {
        let dir = run_dir.folder_of(&file_name(uid), uid)?;
        Ok(Folder { dir, uid })
    }

    /// Whose folder it is, by its name.
    pub fn user(file_name: &str) -> Option<u32> {
        file_name
            .strip_prefix(NAMES)?
            .strip_prefix('.')?
            .parse()
            .ok()
    }

    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Device and number.
    pub fn inode(&self) -> io::Result<(u64, u64)> {
        let stat = fstat(&self.dir)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    fn is_ours(&self) -> bool {
        self.uid == geteuid().as_raw()
    }

    /// What is in the file of this label, if its owner lives. One whose owner is gone is removed, if it is ours. An error: nobody
    /// can tell now.
    pub fn look(&self, label: &Label) -> io::Result<Option<Record>> {
        let name = label.to_string();
        let file = match self.open(&name, OFlags::RDONLY) {
            Err(errno) if is_lack(errno) => return Err(errno),
            Err(_) => return Ok(None),
            Ok(file) => file,
        };
        Ok(self.read(&file, &name, label))
    }

    fn read(&self, file: &impl AsFd, name: &str, label: &Label) -> Option<Record> {
        let stat = fstat(file).ok()?;
        let lives = is_held(file.as_fd(), LIFE).ok()?;
        if !lives && self.is_ours() {
            let _ = self.remove_dead(name);
        }
        let is_plain = is_table_of(&stat, self.uid) && stat.st_size == SIZE as i64;
        if !lives || !is_plain {
            return None;
        }
        let mut bytes = [0; SIZE];
        let length = io::pread(file, &mut bytes, 0).ok()?;
        let record = Record::decode(&bytes[..length])?;
        (record.label == *label).then_some(record)
    }

    /// The labels of its files, but not more than anybody should have to look at.
    pub fn labels(&self) -> io::Result<Vec<Label>> {
        let mut labels = Vec::new();
        self.dir
            .try_each_name(|name| labels.extend(Label::parse(name)))?;
        Ok(labels)
    }

    /// Removes what processes have left that are gone.
    pub fn sweep(&self) {
        let mut names = Vec::new();
        self.dir.each_name(|name| {
            let is_draft = name.split('.').next() == Some(NEW);
            if is_draft || Label::parse(name).is_some() {
                names.push(name.to_owned());
            }
        });
        for name in names {
            if self.lives(&name) == Ok(false) {
                let _ = self.remove_dead(&name);
            }
        }
    }

    /// Registers a name, if nobody of our user has it.
    pub fn publish(run_dir: &Arc<RunDir>, record: &Record) -> Result<Held, NotPublished> {
        let folder = Folder::own(run_dir)?;
        let name = record.label.to_string();
        let file = folder.put(&name, record)?;
        let file = file.into_high().inspect_err(|_| folder.dir.remove(&name))?;
        Ok(Held {
            run_dir: run_dir.clone(),
            uid: folder.uid,
            file,
            name,
            pid: std::process::id(),
        })
    }

    fn put(&self, name: &str, record: &Record) -> Result<Transient, NotPublished> {
        let (mut file, mut draft) = self.draft(record)?;
        for _ in 0..TRIES {
            let from = &*draft;
            match renameat_with(&self.dir, from, &self.dir, name, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(file),
                // A sweeper has come between the making and the locking of our draft.
                Err(Errno::NOENT) => (file, draft) = self.draft(record)?,
                Err(Errno::EXIST) => {
                    let free = self.free(name);
                    if !matches!(free, Ok(())) {
                        self.dir.remove(&draft);
                    }
                    free?;
                }
                Err(errno) => {
                    self.dir.remove(&draft);
                    return Err(errno.into());
                }
            }
        }
        self.dir.remove(&draft);
        Err(Errno::AGAIN.into())
    }

    /// Sees to it that a name is free, unless its owner lives.
    fn free(&self, name: &str) -> Result<(), NotPublished> {
        match self.lives(name) {
            Ok(true) => {
                let record = Label::parse(name).and_then(|label| self.look(&label).ok().flatten());
                let pid = record.map_or(0, |record| record.pid);
                Err(NotPublished::Taken { pid })
            }
            Ok(false) => match self.remove_dead(name) {
                // Another one removes it just now.
                Err(Errno::AGAIN) => {
                    std::thread::yield_now();
                    Ok(())
                }
                removed => Ok(removed?),
            },
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A complete file that is locked, under a name that is no label.
    fn draft(&self, record: &Record) -> io::Result<(Transient, String)> {
        if !may_grow_to(SIZE as u64) {
            return Err(Errno::FBIG);
        }
        let draft = format!("{NEW}.{}.{:016x}", getpid(), random()?);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // Nobody else can open it before it is locked.
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&self.dir, &*draft, flags | OFlags::CLOEXEC, mode)?;
        let file = Transient::new(file);
        let written = match hold(file.as_fd(), LIFE) {
            Ok(true) => io::pwrite(&file, &record.encode(), 0),
            Ok(false) => Err(Errno::AGAIN),
            Err(errno) => Err(errno),
        };
        let made = match written {
            Ok(SIZE) => fchmod(&file, Mode::from_raw_mode(0o644)),
            Ok(_) => Err(Errno::NOSPC),
            Err(errno) => Err(errno),
        };
        made.inspect_err(|_| self.dir.remove(&draft))?;
        Ok((file, draft))
    }

    fn lives(&self, name: &str) -> io::Result<bool> {
        // Not for writing: whoever waits for the end of a name would hear that file being closed.
        let file = self.open(name, OFlags::RDONLY)?;
        is_held(file.as_fd(), LIFE)
    }

    /// EAGAIN: another one is about to.
    fn remove_dead(&self, name: &str) -> io::Result<()> {
        let file = match self.open(name, OFlags::RDWR) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        if is_held(file.as_fd(), LIFE)? {
            return Ok(());
        }
        if !hold(file.as_fd(), REMOVAL)? {
            return Err(Errno::AGAIN);
        }
        self.remove_if_same(name, &fstat(&file)?);
        Ok(())
    }

    fn remove_if_same(&self, name: &str, stat: &Stat) {
        let named = self.dir.stat(name);
        if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino)) {
            self.dir.remove(name);
        }
    }

    /// Without following links, or waiting for somebody who has a lease of it.
    fn open(&self, name: &str, flags: OFlags) -> io::Result<Transient> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.dir, name, flags, Mode::empty()).map(Transient::new)
    }
}

fn file_name(uid: u32) -> String {
    format!("{NAMES}.{uid}")
}

impl Drop for Held {
    fn drop(&mut self) {
        // A child of fork has no part in its parent's name.
        if self.pid == std::process::id()
            && let Ok(stat) = fstat(&self.file)
            && let Ok(folder) = Folder::of(&self.run_dir, self.uid)
        {
            folder.remove_if_same(&self.name, &stat);
        }
    }
}

/// The process, or the host, has no descriptor or no memory now: what was to be opened may well be there.
pub fn is_lack(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
