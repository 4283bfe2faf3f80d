//! What goes beside the bytes of a message: descriptors, credentials, counts.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, cmsghdr, msghdr};

use super::{name, number};
use crate::differ::names::SO_INQ;
use crate::differ::program::Step;

/// Room for control data, unless the step says how much.
const USUAL_ROOM: usize = 128;
/// As much as a step can ask for: more than the most descriptors of a message need.
const MOST_ROOM: usize = 2048;
/// linux/socket.h; not in the libc crate.
const SCM_PIDFD: c_int = 4;
/// No process has it.
const NOBODY: libc::pid_t = 0x3FFF_FFFF;

/// Control data to send.
pub struct Attached {
    /// Aligned as a header.
    memory: Vec<u64>,
    length: usize,
    /// What is passed and not named: ours until it was sent.
    _files: Vec<OwnedFd>,
}

impl Attached {
    /// What a step sends beside its bytes: `rights` descriptors and `credentials`.
    pub fn new(step: &Step) -> Option<Self> {
        let mut data = Vec::new();
        let mut files = Vec::new();
        if let Some(count) = step.find("rights") {
            data.push((libc::SCM_RIGHTS, rights(step, count, &mut files)));
        }
        if let Some(which) = step.find("credentials") {
            data.push((libc::SCM_CREDENTIALS, credentials(which)));
        }
        (!data.is_empty()).then(|| Self::of(&data, files))
    }

    fn of(data: &[(c_int, Vec<u8>)], files: Vec<OwnedFd>) -> Self {
        let space = |bytes: &Vec<u8>| {
            // SAFETY: plain numbers.
            unsafe { libc::CMSG_SPACE(bytes.len() as u32) as usize }
        };
        let length: usize = data.iter().map(|(_, bytes)| space(bytes)).sum();
        let mut memory = vec![0u64; length.div_ceil(8)];
        let mut place = memory.as_mut_ptr().cast::<u8>();
        for (kind, bytes) in data {
            // SAFETY: the memory has room for a header and the bytes of each, in this order.
            unsafe {
                let header = &mut *place.cast::<cmsghdr>();
                header.cmsg_level = libc::SOL_SOCKET;
                header.cmsg_type = *kind;
                header.cmsg_len = libc::CMSG_LEN(bytes.len() as u32) as usize;
                libc::CMSG_DATA(header).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                place = place.add(space(bytes));
            }
        }
        Self {
            memory,
            length,
            _files: files,
        }
    }

    /// The message must not outlive this.
    pub fn attach(&mut self, message: &mut msghdr) {
        message.msg_control = self.memory.as_mut_ptr().cast();
        message.msg_controllen = self.length;
    }
}

/// Descriptors that the receiver can tell apart: the socket of a name, or two new files in turn; -1 is none.
fn rights(step: &Step, count: i64, files: &mut Vec<OwnedFd>) -> Vec<u8> {
    if count < 0 {
        return (-1i32).to_ne_bytes().to_vec();
    }
    let numbers = match step.find("whatfd") {
        Some(named) => vec![number(named)],
        None => {
            files.push(event(step.get("seed") as u32 % 1000));
            files.push(filled_pipe(step.get("seed") as usize % 10 + 1));
            files.iter().map(AsRawFd::as_raw_fd).collect()
        }
    };
    let chosen = (0..count as usize).map(|index| numbers[index % numbers.len()]);
    chosen.flat_map(i32::to_ne_bytes).collect()
}

fn event(count: u32) -> OwnedFd {
    // SAFETY: plain numbers; the descriptor is new.
    unsafe {
        let fd = libc::eventfd(count, libc::EFD_NONBLOCK);
        assert!(fd >= 0, "eventfd");
        OwnedFd::from_raw_fd(fd)
    }
}

/// The end to read from.
fn filled_pipe(bytes: usize) -> OwnedFd {
    let mut ends = [0; 2];
    // SAFETY: room for two, which are then ours; pointer and length describe the bytes.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0, "pipe");
        let [read, write] = ends.map(|fd| OwnedFd::from_raw_fd(fd));
        libc::write(write.as_raw_fd(), [7u8; 16].as_ptr().cast(), bytes.min(16));
        read
    }
}

/// The process's own, or those of a process that does not exist.
fn credentials(which: i64) -> Vec<u8> {
    // SAFETY: no arguments.
    let (pid, uid, gid) = unsafe { (libc::getpid(), libc::getuid(), libc::getgid()) };
    let pid = if which == 0 { pid } else { NOBODY };
    let words = [pid as u32, uid, gid];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Room for a name and for control data.
#[repr(C, align(8))]
pub struct Extras {
    name: libc::sockaddr_storage,
    control: [u8; MOST_ROOM],
}

impl Extras {
    pub fn boxed() -> Box<Self> {
        // SAFETY: bytes and an address of zeroes are valid.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    pub fn attach(&mut self, message: &mut msghdr, room: Option<i64>) {
        message.msg_name = (&raw mut self.name).cast();
        message.msg_namelen = 128;
        message.msg_control = self.control.as_mut_ptr().cast();
        message.msg_controllen = room.map_or(USUAL_ROOM, |room| (room as usize).min(MOST_ROOM));
    }
}

/// Control data by level, type and length, and what of its content does not vary. The first descriptor that came gets
/// the step's name `to`, if it has one; the others are closed.
pub fn show(message: &msghdr, step: &Step) -> String {
    let mut text = String::new();
    // SAFETY: the kernel filled the message; the walk stays within its control data.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let (level, kind, length) = (
                (*header).cmsg_level,
                (*header).cmsg_type,
                (*header).cmsg_len,
            );
            let rest = length.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(header), rest);
            text.push_str(&format!("{level}/{kind}/{length}"));
            text.push_str(&content(level, kind, data, step));
            text.push(',');
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    text
}

/// The content of time stamps varies, and is left out.
fn content(level: c_int, kind: c_int, data: &[u8], step: &Step) -> String {
    let int = |at: usize| data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let int = |at| int(at).map_or(-1, i32::from_ne_bytes);
    match (level, kind) {
        (libc::IPPROTO_TCP, libc::TCP_INQ) | (libc::SOL_SOCKET, SO_INQ) => format!("/{}", int(0)),
        (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
            format!("/{}", process(int(0), int(4) as u32, int(8) as u32))
        }
        (libc::SOL_SOCKET, SCM_PIDFD) => {
            close(int(0));
            String::new()
        }
        (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
            let numbers = (0..data.len() / 4).map(|index| int(4 * index));
            taken(&numbers.collect::<Vec<_>>(), step)
        }
        _ => String::new(),
    }
}

/// What came, by its number and what it is; many of them by their count.
fn taken(numbers: &[c_int], step: &Step) -> String {
    let mut text = String::new();
    for fd in numbers.iter().take(3) {
        text.push_str(&format!("/{fd}={}", what(*fd)));
    }
    let kept = step.find("to").is_some();
    if kept && let Some(first) = numbers.first() {
        name(step.get("to"), *first);
    }
    for fd in numbers.iter().skip(usize::from(kept)) {
        close(*fd);
    }
    text
}

fn close(fd: c_int) {
    // SAFETY: a number that the kernel has just given to us.
    unsafe { libc::close(fd) };
}

/// What a descriptor leads to, without changing it: a peek gives it once more.
fn what(fd: c_int) -> String {
    // SAFETY: plain numbers.
    let on_exec = unsafe { libc::fcntl(fd, libc::F_GETFD) } == libc::FD_CLOEXEC;
    let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let count = info
        .lines()
        .find_map(|line| line.strip_prefix("eventfd-count:"));
    let kind = match (count, target.to_string_lossy()) {
        (Some(count), _) => format!("event:{}", count.trim()),
        (None, target) if target.starts_with("pipe:") => format!("pipe:{}", queued(fd)),
        (None, target) => target.split(':').next().unwrap_or("").to_owned(),
    };
    format!("{kind}{}", if on_exec { ":cloexec" } else { "" })
}

fn queued(fd: c_int) -> c_int {
    let mut count = -1;
    // SAFETY: FIONREAD gives an int.
    unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) };
    count
}

/// Who that is, seen from here.
pub fn process(pid: i32, uid: u32, gid: u32) -> String {
    // SAFETY: no arguments.
    let (own, parent, user, group) = unsafe {
        (
            libc::getpid(),
            libc::getppid(),
            libc::getuid(),
            libc::getgid(),
        )
    };
    let who = match pid {
        0 => "none",
        _ if pid == own => "self",
        _ if pid == parent => "parent",
        _ => "other",
    };
    let user = if uid == user {
        "user".to_owned()
    } else {
        uid.to_string()
    };
    let group = if gid == group {
        "group".to_owned()
    } else {
        gid.to_string()
    };
    format!("{who}:{user}:{group}")
}
