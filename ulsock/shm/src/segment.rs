//! Shared memory between two processes: sealed memfds, and nothing about what lies in them.
//!
//! Created by the side that claims a connection, adopted by the other. A segment is mapped only when
//! nobody can ever shrink it under us (SIGBUS), and no reference or slice to it is formed: the peer
//! may write any byte at any time.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate,
    memfd_create,
};
use rustix::io::{self, Errno};
use rustix::mm::Advice;
use rustix::param::page_size;

use os::fds::InternalFd;
use os::fds::Transient;
use os::is_regular;
use os::map::Access;
use os::map::Mapping;
use os::may_grow_to;

/// Fixed size for ever. A file that has these is a memfd: other shmem files are born with SEAL alone.
const FIXED: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// What /proc shows of those that nobody looks for.
const NAME: &str = "ulsock";

/// include/uapi/linux/magic.h
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Why a segment could not be made or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// RLIMIT_FSIZE is too low.
    FileLimit,
    /// Its size could still change.
    NotSealed,
    /// Not plain shmem; a sealed hugetlb file still raises SIGBUS.
    NotShmem,
    WrongSize,
    Os(Errno),
}

impl From<Errno> for SegmentError {
    fn from(errno: Errno) -> SegmentError {
        SegmentError::Os(errno)
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::FileLimit => f.write_str("the file size limit (ulimit -f) is too low"),
            SegmentError::NotSealed => f.write_str("the memory's size is not sealed"),
            SegmentError::NotShmem => f.write_str("not plain shared memory"),
            SegmentError::WrongSize => f.write_str("not of the agreed size"),
            SegmentError::Os(errno) => errno.fmt(f),
        }
    }
}

/// Memory that we and a peer both read and write.
#[derive(Debug)]
pub struct Segment(Mapping);

impl Segment {
    /// Creates zeroed memory and the descriptor that lets a peer adopt it.
    pub fn create(size: u64) -> Result<(Segment, InternalFd), SegmentError> {
        Segment::create_sealed(NAME, size, FIXED)
    }

    /// The same under a name, by which it is found in /proc.
    pub fn create_named(name: &str, size: u64) -> Result<(Segment, InternalFd), SegmentError> {
        Segment::create_sealed(name, size, FIXED)
    }

    /// The same, but only we can write it: whoever gets the descriptor can map it to read.
    pub fn create_own(size: u64) -> Result<(Segment, InternalFd), SegmentError> {
        Segment::create_sealed(NAME, size, FIXED | SealFlags::FUTURE_WRITE)
    }

    fn create_sealed(
        name: &str,
        size: u64,
        seals: SealFlags,
    ) -> Result<(Segment, InternalFd), SegmentError> {
        if !may_grow_to(size) {
            return Err(SegmentError::FileLimit);
        }
        let len = usize::try_from(size).map_err(|_| SegmentError::WrongSize)?;
        let fd = memfd(name)?.into_high()?;
        ftruncate(&fd, size)?;
        let mapping = Mapping::new(fd.as_fd(), len, Access::ReadWrite)?;
        // After mapping, for FUTURE_WRITE forbids every later writable mapping, ours too.
        fcntl_add_seals(&fd, seals)?;
        Ok((Segment(mapping), fd))
    }

    /// Maps a peer's segment after checking that it is what it should be.
    pub fn adopt(fd: BorrowedFd<'_>, expected_size: u64) -> Result<Segment, SegmentError> {
        let len = check(fd, expected_size)?;
        Ok(Segment(Mapping::new(fd, len, Access::ReadWrite)?))
    }

    /// Maps memory that only the peer writes.
    pub fn adopt_readonly(
        fd: BorrowedFd<'_>,
        expected_size: u64,
    ) -> Result<ReadOnlySegment, SegmentError> {
        let len = check(fd, expected_size)?;
        Ok(ReadOnlySegment(Mapping::new(fd, len, Access::ReadOnly)?))
    }

    pub fn base(&self) -> *mut u8 {
        self.0.base()
    }

    /// Gives the whole pages inside the range back to the system; they then read as zeros.
    pub fn punch(&self, offset: usize, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        let page = page_size();
        let first = offset.checked_next_multiple_of(page).ok_or(Errno::INVAL)?;
        let last = end - end % page;
        if first >= last {
            return Ok(());
        }
        self.0.advise(first, last - first, Advice::LinuxRemove)
    }

    /// Gets the memory of a range now (Linux 5.14): a system or control group that has none left
    /// says so here, and not by SIGBUS at the first touch.
    pub fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::INVAL)?;
        let first = offset - offset % page_size();
        self.0.advise(
            first,
            end.checked_sub(first).ok_or(Errno::INVAL)?,
            Advice::LinuxPopulateWrite,
        )
    }
}

/// Memory that a peer writes and we only read.
#[derive(Debug)]
pub struct ReadOnlySegment(Mapping);

impl ReadOnlySegment {
    pub fn base(&self) -> *const u8 {
        self.0.base()
    }
}

/// A memfd that can be sealed and not executed; the latter is unknown before Linux 6.3.
fn memfd(name: &str) -> io::Result<Transient> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    };
    made.map(Transient::new)
}

/// Checks a foreign descriptor, and returns its length.
pub fn check(fd: BorrowedFd<'_>, expected_size: u64) -> Result<usize, SegmentError> {
    // Fails with EINVAL on anything that knows no seals.
    let seals = fcntl_get_seals(fd).map_err(|_| SegmentError::NotSealed)?;
    if !seals.contains(FIXED) {
        return Err(SegmentError::NotSealed);
    }
    let fs = fstatfs(fd)?;
    let stat = fstat(fd)?;
    // Not st_blksize: with shmem huge pages switched on it is the huge page's size there as well.
    let plain_pages = usize::try_from(fs.f_bsize) == Ok(page_size());
    if fs.f_type != TMPFS_MAGIC || !plain_pages || !is_regular(&stat) {
        return Err(SegmentError::NotShmem);
    }
    if u64::try_from(stat.st_size) != Ok(expected_size) {
        return Err(SegmentError::WrongSize);
    }
    usize::try_from(expected_size).map_err(|_| SegmentError::WrongSize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64 * 1024;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let (ours, fd) = Segment::create(SIZE).unwrap();
        let theirs = Segment::adopt(fd.as_fd(), SIZE).unwrap();
        // SAFETY: inside both mappings, and this thread alone touches them.
        unsafe {
            ours.base().add(9000).write_volatile(7);
            assert_eq!(theirs.base().add(9000).read_volatile(), 7);
            ours.punch(8000, 8400).unwrap();
            assert_eq!(theirs.base().add(9000).read_volatile(), 0);
        }
        ours.punch(1, 5).unwrap();
        assert_eq!(ours.punch(60000, 10000), Err(Errno::INVAL));
        ours.populate(100, 5000).unwrap();
        assert_eq!(ours.populate(usize::MAX, 5), Err(Errno::INVAL));
    }

    #[test]
    fn its_size_is_fixed() {
        let (_ours, fd) = Segment::create(SIZE).unwrap();
        assert_eq!(ftruncate(&fd, SIZE / 2), Err(Errno::PERM));
        assert_eq!(ftruncate(&fd, SIZE * 2), Err(Errno::PERM));
        assert_eq!(
            Segment::adopt(fd.as_fd(), SIZE * 2).unwrap_err(),
            SegmentError::WrongSize
        );
    }

    #[test]
    fn an_own_page_is_read_only_to_others() {
        let (ours, fd) = Segment::create_own(4096).unwrap();
        assert!(Segment::adopt(fd.as_fd(), 4096).is_err());
        let theirs = Segment::adopt_readonly(fd.as_fd(), 4096).unwrap();
        // SAFETY: inside both mappings, and this thread alone touches them.
        unsafe {
            ours.base().write_volatile(9);
            assert_eq!(theirs.base().read_volatile(), 9);
        }
    }

    #[test]
    fn refuses_other_files() {
        let plain = memfd(NAME).unwrap();
        ftruncate(&plain, SIZE).unwrap();
        let refused = |fd| Segment::adopt(fd, SIZE).unwrap_err();
        assert_eq!(refused(plain.as_fd()), SegmentError::NotSealed);
        let null = std::fs::File::open("/dev/zero").unwrap();
        assert_eq!(refused(null.as_fd()), SegmentError::NotSealed);
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        if let Ok(huge) = memfd_create(c"huge", flags) {
            fcntl_add_seals(&huge, FIXED).unwrap();
            assert_eq!(refused(huge.as_fd()), SegmentError::NotShmem);
        }
    }
}
