//! What /proc tells this process about itself, also in a chroot: a directory that was opened before
//! still leads there.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;

use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags, openat, readlinkat_raw};
use rustix::io;

use crate::fds::InternalFd;
use crate::fds::Transient;
use crate::plain::plain;
use crate::raw;
use crate::text::Text;

crate::process_wide! {
    static KEPT: OnceLock<InternalFd> = OnceLock::new();
}

/// Before a chroot: holds /proc open.
pub fn keep() {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, "/proc", flags, Mode::empty());
    if let Ok(proc) = opened.and_then(crate::fds::to_high) {
        let _ = KEPT.set(proc);
    }
}

/// What `entry` of our own directory is relative to, and its name there.
fn own(entry: std::fmt::Arguments<'_>) -> io::Result<(BorrowedFd<'static>, Text)> {
    within(format_args!("self/{entry}"))
}

fn within(entry: std::fmt::Arguments<'_>) -> io::Result<(BorrowedFd<'static>, Text)> {
    Ok(match KEPT.get() {
        Some(proc) => (proc.as_fd(), Text::format(entry)?),
        None => (CWD, Text::format(format_args!("/proc/{entry}"))?),
    })
}

/// Where the link of `fd` leads: its kind, for what has no name. Gives the length.
pub fn describe(fd: impl AsFd, target: &mut [u8]) -> io::Result<usize> {
    let (dir, path) = own(format_args!("fd/{}", fd.as_fd().as_raw_fd()))?;
    readlinkat_raw(dir, &*path, target)
}

/// Is it an io_uring?
pub fn is_uring(fd: impl AsFd) -> bool {
    let mut room = [0_u8; 32];
    describe(fd, &mut room).is_ok_and(|len| room[..len] == *URING)
}

/// What [`describe`] says of an io_uring.
pub const URING: &[u8] = b"anon_inode:[io_uring]";

/// A number that is another after each start of the system.
pub fn boot() -> io::Result<u64> {
    let (dir, path) = within(format_args!("sys/kernel/random/boot_id"))?;
    let file = Transient::new(openat(
        dir,
        &*path,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let mut text = [0; 36];
    let len = io::read(&file, &mut text)?;
    let digits = text[..len]
        .iter()
        .filter_map(|digit| char::from(*digit).to_digit(16));
    Ok(digits.fold(0, |number: u64, digit| {
        number.rotate_left(4) ^ u64::from(digit)
    }))
}

/// Every number that is open.
pub fn numbers() -> Vec<RawFd> {
    listed(own(format_args!("fd"))).unwrap_or_default()
}

fn listed(place: io::Result<(BorrowedFd<'static>, Text)>) -> io::Result<Vec<RawFd>> {
    let (dir, path) = place?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = Transient::new(openat(dir, &*path, flags, Mode::empty())?);
    let entries = Dir::read_from(&dir)?.flatten();
    let number = |entry: DirEntry| entry.file_name().to_str().ok()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

/// Does the process have our epoll set `epfd` at any of its numbers? In doubt it does.
pub fn holds_set(pid: u32, epfd: RawFd) -> bool {
    const SET: &[u8] = b"anon_inode:[eventpoll]";
    let Ok(numbers) = listed(within(format_args!("{pid}/fd"))) else {
        return true;
    };
    numbers.into_iter().any(|number| {
        let mut target = [0; 32];
        let link = within(format_args!("{pid}/fd/{number}"))
            .and_then(|(dir, path)| readlinkat_raw(dir, &*path, &mut target[..]));
        match link {
            // It was closed meanwhile.
            Err(io::Errno::NOENT) => false,
            Err(_) => true,
            Ok(len) => target.get(..len) == Some(SET) && is_same_file(pid, number, epfd),
        }
    })
}

/// Is number `theirs` of the process the open file behind our number `ours`? In doubt it is.
fn is_same_file(pid: u32, theirs: RawFd, ours: RawFd) -> bool {
    const KCMP_FILE: usize = 0;
    let (me, pid) = (std::process::id() as usize, pid as usize);
    let files = [me, pid, KCMP_FILE, ours as usize, theirs as usize];
    // SAFETY: no pointers.
    match unsafe { raw::syscall(libc::SYS_kcmp, files) } {
        Ok(order) => order == 0,
        Err(error) => error != io::Errno::BADF,
    }
}

/// Begin and end of each mapping of this process, by address.
pub fn mappings() -> io::Result<Vec<(usize, usize)>> {
    let text = text_of(format_args!("maps"))?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let range = |line: &str| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((number(begin)?, number(end)?))
    };
    Ok(text.lines().filter_map(range).collect())
}

/// The whole of an entry of our own directory.
pub(crate) fn text_of(entry: std::fmt::Arguments<'_>) -> io::Result<String> {
    let (dir, path) = own(entry)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = Transient::new(openat(dir, &*path, flags, Mode::empty())?);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match rustix::io::read(&file, &mut part)? {
            0 => break,
            n => text.extend_from_slice(&part[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The name of our program.
pub fn program() -> io::Result<String> {
    let mut name = [0; 64];
    let name = read_own(format_args!("comm"), &mut name)?;
    Ok(plain(name.trim_ascii_end()))
}

/// Whether every user of the system has a number of its own here, as it is outside of user
/// namespaces. Asked anew each time: a process can move into one.
pub fn users_are_distinct() -> bool {
    let mut map = [0; 64];
    let every = ["0", "0", "4294967295"];
    read_own(format_args!("uid_map"), &mut map).is_ok_and(|map| {
        let map = String::from_utf8_lossy(map);
        map.split_ascii_whitespace().eq(every)
    })
}

/// The beginning of a file of our own directory.
pub fn read_own<'a>(entry: std::fmt::Arguments<'_>, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    read_of_all(format_args!("self/{entry}"), buffer)
}

/// The beginning of a file that is the same for all processes.
pub fn read_of_all<'a>(
    entry: std::fmt::Arguments<'_>,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let (dir, path) = within(entry)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = Transient::new(openat(dir, &*path, flags, Mode::empty())?);
    let n = io::read(&file, &mut *buffer)?;
    Ok(buffer.get(..n).unwrap_or_default())
}
