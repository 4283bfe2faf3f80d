//! The file of an offers table: how it is made, opened, mended and walked through.

use rustix::fs::{
    Mode, OFlags, RenameFlags, SeekFrom, fstat, ftruncate, openat, renameat_with, seek,
};
use rustix::io::{self, Errno, pread, pwrite};

use super::slot::{Words, words_of};
use super::{HEADER, IDENTITY, SIZE, SLOT, SLOTS, TableError, offset_of};
use crate::rundir::{NEW, OFFERS, RunDir, is_ours, is_table_of};
use os::fds::InternalFd;
use os::fds::Transient;
use os::may_grow_to;
use os::text::Text;

/// So much of a table is read at once.
const PIECE: usize = 16 << 10;

fn file_name(uid: u32) -> io::Result<Text> {
    Text::format(format_args!("{OFFERS}.{uid}"))
}

/// The first `most` users who have a table: a file that has its owner's number in its name.
pub fn users(dir: &RunDir, most: usize) -> Vec<u32> {
    let mut users = Vec::new();
    dir.each_name(|name| {
        let (prefix, uid) = name.split_once('.').unwrap_or_default();
        let uid = uid.parse().ok().filter(|_| prefix == OFFERS);
        let owns = |uid: &u32| dir.stat(name).is_ok_and(|stat| stat.st_uid == *uid);
        if users.len() < most {
            users.extend(uid.filter(owns));
        }
    });
    users
}

/// The table of our own uid, to read and write; made when it is missing, mended when it is damaged.
pub(super) fn open_own(dir: &RunDir, uid: u32) -> Result<InternalFd, TableError> {
    let fd = match open(dir, uid, OFlags::RDWR) {
        Err(TableError::Os(Errno::NOENT)) => {
            create(dir, &file_name(uid)?)?;
            open(dir, uid, OFlags::RDWR)
        }
        other => other,
    }?;
    if is_damaged(&fd)? {
        mend(&fd)?;
    }
    check_format(&fd)?;
    Ok(fd.into_high()?)
}

pub(super) fn open_foreign(dir: &RunDir, uid: u32) -> Result<InternalFd, TableError> {
    let fd = open(dir, uid, OFlags::RDONLY)?;
    check_format(&fd)?;
    Ok(fd.into_high()?)
}

/// Its name leads elsewhere, or nowhere.
pub(super) fn is_removed(table: &InternalFd) -> bool {
    fstat(table).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Opens a table, if it is one of the uid's.
fn open(dir: &RunDir, uid: u32, access: OFlags) -> Result<Transient, TableError> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = match openat(dir, &*file_name(uid)?, flags, Mode::empty()) {
        // A link, a folder, a pipe that nobody reads, a stranger's file, or one of which somebody has a lease.
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS | Errno::AGAIN) => {
            return Err(TableError::Stranger);
        }
        other => Transient::new(other?),
    };
    match is_table_of(&fstat(&fd)?, uid) {
        true => Ok(fd),
        false => Err(TableError::Stranger),
    }
}

fn identity(fd: &Transient) -> io::Result<[u8; IDENTITY.len()]> {
    let mut identity = [0; IDENTITY.len()];
    pread(fd, &mut identity, 0).map(|_| identity)
}

/// Tables are born with their size and their identity: somebody has cut this one off. Another identity is that of
/// another version.
fn is_damaged(fd: &Transient) -> io::Result<bool> {
    let identity = identity(fd)?;
    Ok(identity == [0; IDENTITY.len()] || identity == IDENTITY && !is_whole(fd)?)
}

fn is_whole(fd: &Transient) -> io::Result<bool> {
    Ok(usize::try_from(fstat(fd)?.st_size) == Ok(SIZE))
}

fn check_format(fd: &Transient) -> Result<(), TableError> {
    match is_whole(fd)? && identity(fd)? == IDENTITY {
        true => Ok(()),
        false => Err(TableError::Format),
    }
}

/// Gives the table its size and its identity back; offers that were in it are gone.
pub(super) fn mend(fd: impl std::os::fd::AsFd) -> io::Result<()> {
    if !may_grow_to(SIZE as u64) {
        return Err(Errno::FBIG);
    }
    ftruncate(&fd, SIZE as u64)?;
    pwrite(&fd, &IDENTITY, 0).map(drop)
}

/// Creates the table under another name first: nobody must see a half-made one.
fn create(dir: &RunDir, name: &str) -> Result<(), TableError> {
    let (fd, new) = dir.create_locked(NEW, SIZE as u64)?;
    let made = match is_ours(&fstat(&fd)?) {
        false => Err(TableError::Stranger),
        true => pwrite(&fd, &IDENTITY, 0)
            .and_then(|_| renameat_with(dir, &*new, dir, name, RenameFlags::NOREPLACE))
            .map_err(TableError::Os),
    };
    if made.is_err() {
        dir.remove(&new);
    }
    match made {
        Err(TableError::Os(Errno::EXIST)) => Ok(()),
        other => other,
    }
}

/// Every slot that was ever written, and its neighbours: holes are passed over.
pub(super) fn each_used(fd: &InternalFd, mut each: impl FnMut(usize, &Words)) {
    let mut bytes = [0; PIECE];
    let mut at = HEADER;
    while at < SIZE {
        let Some(data) = seek(fd, SeekFrom::Data(at as u64)).ok().and_then(slot_at) else {
            return;
        };
        // It may be a hole by now; a step forward it is in any case.
        let first = data.max(index_of(at));
        let Ok(read) = pread(fd, &mut bytes, offset_of(first) as u64) else {
            return;
        };
        let count = (read / SLOT).min(SLOTS - first);
        if count == 0 {
            return;
        }
        for (n, slot) in bytes.chunks_exact(SLOT).take(count).enumerate() {
            each(first + n, &words_of(slot));
        }
        at = offset_of(first + count);
    }
}

/// The slot at an offset of the file, if there is one.
fn slot_at(offset: u64) -> Option<usize> {
    let offset = usize::try_from(offset).ok()?.max(HEADER);
    Some(index_of(offset)).filter(|index| *index < SLOTS)
}

fn index_of(offset: usize) -> usize {
    (offset - HEADER) / SLOT
}
