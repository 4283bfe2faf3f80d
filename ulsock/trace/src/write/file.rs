//! The file of this program, as it was started: mapped at load time, and shared by all that it forks.

use std::ffi::{CStr, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use os::spin::Clock;
use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};
use rustix::time::{ClockId, clock_gettime};

use crate::layout::{CHUNK, HEADER, Head, Header, MAGIC, MOST_CHUNKS, PROGRAM, VARIABLE, size};

static BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// How many chunks there are. What the file says of it is for whoever reads it: all that share the file can write there,
/// also a child that has fewer rights.
static CHUNKS: AtomicU32 = AtomicU32::new(0);
/// A word that a forked child finds to be 0.
static EPOCH: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// See [`family`].
static FAMILY: AtomicU32 = AtomicU32::new(0);

#[inline]
pub fn is_on() -> bool {
    !BASE.load(Ordering::Relaxed).is_null()
}

#[inline]
pub(super) fn header() -> Option<&'static Header> {
    // SAFETY: null, or a mapping that is there for good, begins with a header, and is aligned to a page.
    unsafe { BASE.load(Ordering::Acquire).cast::<Header>().as_ref() }
}

/// Before a sandbox, whose rules may kill for a system call that the program itself does not make.
pub fn stop() {
    BASE.store(null_mut(), Ordering::Release);
}

/// Load time. Who has more rights than who started him writes no files for him.
pub fn start() -> bool {
    // SAFETY: a plain number.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return false;
    }
    let Some(value) = std::env::var_os(VARIABLE) else {
        return false;
    };
    let Some((chunks, folder)) = parse(value.as_bytes()) else {
        return false;
    };
    create(Path::new(folder), chunks).is_ok()
}

fn parse(value: &[u8]) -> Option<(u32, &OsStr)> {
    let colon = value.iter().position(|byte| *byte == b':')?;
    let chunks: u32 = std::str::from_utf8(&value[..colon]).ok()?.parse().ok()?;
    let folder = OsStr::from_bytes(&value[colon + 1..]);
    (1..=MOST_CHUNKS)
        .contains(&chunks)
        .then_some((chunks, folder))
}

pub(super) fn create(folder: &Path, chunks: u32) -> io::Result<()> {
    let epoch = wiped_by_fork()?;
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let began = Clock::now().nanos();
    let name = folder.join(format!("{pid}-{began}"));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let size = size(chunks);
    if !os::may_grow_to(size as u64) {
        return Err(io::Errno::FBIG);
    }
    let file = open(name, flags, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, size as u64)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let kind = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice, which is never unmapped.
    let base = unsafe { mmap(null_mut(), size, access, kind, file.as_fd(), 0)? };
    populate(base.cast(), HEADER)?;
    // SAFETY: the page is there, aligned, and nobody else has the file yet; all in it is atomic.
    fill(unsafe { &*base.cast::<Header>() }, pid, chunks, began);
    EPOCH.store(epoch, Ordering::Release);
    CHUNKS.store(chunks, Ordering::Release);
    BASE.store(base.cast(), Ordering::Release);
    Ok(())
}

fn fill(header: &Header, pid: u32, chunks: u32, began: u64) {
    let calendar = clock_gettime(ClockId::Realtime);
    let calendar = calendar.tv_sec as u64 * 1_000_000_000 + calendar.tv_nsec as u64;
    let mut program = [0; PROGRAM];
    let name = started_as();
    // What is behind the last slash says most.
    let name = &name[name.len().saturating_sub(PROGRAM)..];
    program[..name.len()].copy_from_slice(name);
    for (word, bytes) in header.program.iter().zip(program.chunks_exact(8)) {
        let bytes = bytes.try_into().unwrap_or_default();
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
    header.pid.store(pid, Ordering::Relaxed);
    header.chunks.store(chunks, Ordering::Relaxed);
    header.began.store(began, Ordering::Relaxed);
    header.began_realtime.store(calendar, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}

/// The path that was given to execve: behind a link it says more than the file's own.
fn started_as() -> &'static [u8] {
    // SAFETY: a plain number.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    match path.is_null() {
        true => b"",
        // SAFETY: the kernel has put a string there, above the stack, where it stays.
        false => unsafe { CStr::from_ptr(path) }.to_bytes(),
    }
}

/// A page that is full of zeros in a forked child, however it was forked.
fn wiped_by_fork() -> io::Result<*mut AtomicU64> {
    const PAGE: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, which is never unmapped.
    unsafe {
        let page = mmap_anonymous(null_mut(), PAGE, access, MapFlags::PRIVATE)?;
        madvise(page, PAGE, Advice::LinuxWipeOnFork)?;
        Ok(page.cast())
    }
}

/// Memory that cannot be had is an error here, and not a SIGBUS at the first touch.
fn populate(at: *mut u8, length: usize) -> io::Result<()> {
    // SAFETY: a part of our own mapping; its content does not change.
    unsafe { madvise(at.cast(), length, Advice::LinuxPopulateWrite) }
}

pub fn note_attached() {
    if let Some(header) = header() {
        header.attached.store(1, Ordering::Relaxed);
    }
}

/// Names this process among those that share the file; never 0.
#[inline]
pub fn epoch() -> u64 {
    // SAFETY: null, or a page that is never unmapped.
    let Some(epoch) = (unsafe { EPOCH.load(Ordering::Acquire).as_ref() }) else {
        return u64::MAX;
    };
    match epoch.load(Ordering::Relaxed) {
        0 => {
            let pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
            epoch.store(pid, Ordering::Relaxed);
            pid
        }
        known => known,
    }
}

/// Names those that share the library's records, for a caller that has a connection. The library makes them for a process
/// with its first one, and children that are forked later have the same.
#[inline]
pub fn family() -> u32 {
    match FAMILY.load(Ordering::Relaxed) {
        0 => {
            let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
            FAMILY.store(pid, Ordering::Relaxed);
            pid
        }
        known => known,
    }
}

/// A chunk for the calling thread; `None`: there is no room.
#[cold]
pub fn chunk() -> Option<&'static Head> {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: null, or a mapping that is there for good, begins with a header, and is aligned to a page.
    let header = unsafe { base.cast::<Header>().as_ref() }?;
    let chunks = CHUNKS.load(Ordering::Acquire);
    // Who asks again and again must not count up to where it begins anew.
    if header.given.load(Ordering::Relaxed) >= chunks {
        return None;
    }
    let number = header.given.fetch_add(1, Ordering::Relaxed);
    if number >= chunks {
        return None;
    }
    let at = base.wrapping_add(size(number));
    populate(at, CHUNK).ok()?;
    // SAFETY: chunk `number` is within the mapping, aligned, its memory is there, and it was given to nobody else.
    let head = unsafe { &*at.cast::<Head>() };
    own(head);
    Some(head)
}

fn own(head: &Head) {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let mut name = [0u64; 2];
    let place = name.as_mut_ptr() as usize;
    // SAFETY: the kernel writes 16 bytes there.
    let _ = unsafe { os::raw::syscall(libc::SYS_prctl, [libc::PR_GET_NAME as usize, place]) };
    for (word, part) in head.name.iter().zip(name) {
        word.store(part, Ordering::Relaxed);
    }
    head.pid.store(pid, Ordering::Relaxed);
    head.tid.store(tid, Ordering::Release);
}

#[cold]
pub fn drop_one(time: u64) {
    if let Some(header) = header() {
        header.dropped.fetch_add(1, Ordering::Relaxed);
        let (order, time) = (Ordering::Relaxed, time.max(1));
        let _ = header.full_at.compare_exchange(0, time, order, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_checked() {
        let good = parse(b"7:/tmp/a:b");
        assert_eq!(good, Some((7, OsStr::new("/tmp/a:b"))));
        for bad in [
            "",
            "7",
            ":/tmp",
            "0:/tmp",
            "-1:/tmp",
            "99999999999:/tmp",
            "131073:/tmp",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
