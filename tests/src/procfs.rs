//! What /proc says about a process: run time, memory, fds, mappings, and who listens on a port.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn entry(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// CPU time that all threads of `pid` have used so far.
pub fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(entry(pid, "task")).expect("the process is gone");
    let nanos = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Resident memory of `pid` in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(entry(pid, "status")).expect("the process is gone");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("no VmRSS line");
    let number = line.split_whitespace().next();
    number
        .and_then(|text| text.parse().ok())
        .expect("VmRSS is a number")
}

/// Memory of `pid` in KiB, of what it shares with others only its part.
pub fn proportional_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(entry(pid, "smaps_rollup")).expect("the process is gone");
    pss(text.lines())
}

/// The same of its mappings of files whose name contains `name`, and how many of those it has.
pub fn mapped_kib(pid: u32, name: &str) -> (usize, u64) {
    let text = fs::read_to_string(entry(pid, "smaps")).expect("the process is gone");
    let lines: Vec<&str> = text.lines().collect();
    // A mapping's first line begins with its addresses, the others with a capital letter.
    let is_first = |line: &str| !line.starts_with(|first: char| first.is_ascii_uppercase());
    let mappings = lines.chunk_by(|_, next| !is_first(next));
    let mine = mappings.filter(|lines| lines[0].contains(name));
    mine.fold((0, 0), |(count, kib), lines| {
        (count + 1, kib + pss(lines.iter().copied()))
    })
}

fn pss<'a>(mut lines: impl Iterator<Item = &'a str>) -> u64 {
    let line = lines.find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number
        .and_then(|text| text.parse().ok())
        .expect("Pss is a number")
}

/// Open fds of `pid`.
pub fn fds(pid: u32) -> usize {
    fs::read_dir(entry(pid, "fd"))
        .expect("the process is gone")
        .count()
}

/// Whether `pid` has a descriptor of an io_uring.
pub fn has_io_uring(pid: u32) -> bool {
    let fds = fs::read_dir(entry(pid, "fd")).expect("the process is gone");
    let mut files = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    files.any(|file| file == Path::new("anon_inode:[io_uring]"))
}

/// Mappings of `pid` (the kernel's limit is 65,530).
pub fn mappings(pid: u32) -> usize {
    fs::read_to_string(entry(pid, "maps"))
        .expect("the process is gone")
        .lines()
        .count()
}

/// The system call that each thread of `pid` is in, one line per thread.
pub fn system_calls(pid: u32) -> String {
    let Ok(tasks) = fs::read_dir(entry(pid, "task")) else {
        return "the process is gone\n".to_owned();
    };
    tasks
        .flatten()
        .map(|task| {
            let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
            format!("thread {:?}: {}\n", task.file_name(), call.trim_end())
        })
        .collect()
}

/// Whether the first thread of `pid` is in one of the calls that wait for events of an epoll set.
pub fn waits_for_events(pid: u32) -> bool {
    let waits = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
    ];
    is_in(pid, &waits)
}

/// Whether the first thread of `pid` waits for a connection.
pub fn waits_for_connection(pid: u32) -> bool {
    is_in(pid, &[libc::SYS_accept, libc::SYS_accept4])
}

/// Whether the first thread of `pid` is in one of these system calls.
fn is_in(pid: u32, calls: &[i64]) -> bool {
    let call = fs::read_to_string(entry(pid, "syscall")).unwrap_or_default();
    let number = call.split_whitespace().next();
    let number = number.and_then(|word| word.parse().ok());
    number.is_some_and(|number: i64| calls.contains(&number))
}

/// Whether somebody listens on TCP `port` of `pid`'s network namespace; asked without connecting, which
/// would use up the one connection that `nc -l` or `iperf3 -1` serves.
pub fn listens(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    ["net/tcp", "net/tcp6"].iter().any(|table| {
        let text = fs::read_to_string(entry(pid, table)).unwrap_or_default();
        text.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            let state = fields.nth(1).unwrap_or_default();
            state == LISTEN && local.ends_with(&format!(":{port:04X}"))
        })
    })
}

/// Whether somebody listens on the Unix socket `path` in `pid`'s network namespace; an abstract name begins with `@`.
pub fn listens_at(pid: u32, path: &Path) -> bool {
    // SO_ACCEPTCON, in the fourth column; the path is the eighth (net/unix/af_unix.c, unix_seq_show).
    const LISTENS: &str = "00010000";
    let text = fs::read_to_string(entry(pid, "net/unix")).unwrap_or_default();
    text.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(LISTENS) && fields.nth(3).map(Path::new) == Some(path)
    })
}

/// The letter of its state; nothing when it is gone.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(entry(pid, "stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Whether `pid` has ended; nobody may have waited for it yet.
pub fn is_gone(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether a signal has stopped `pid`.
pub fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

/// The children of `pid`'s first thread.
pub fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(entry(pid, &format!("task/{pid}/children"))).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// The living processes whose working directory is in `folder`.
pub fn working_in(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let directory = fs::read_link(entry(*pid, "cwd"));
        directory.is_ok_and(|directory| directory.starts_with(folder))
    })
    .collect()
}

/// The number of the first CPU that we may use.
pub fn first_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("no Cpus_allowed_list").trim();
    list.split([',', '-']).next().unwrap_or(list).to_owned()
}
