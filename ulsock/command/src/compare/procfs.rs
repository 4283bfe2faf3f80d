//! What /proc says about other processes: their CPU time, and whether they listen.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// CPU time of a process and its descendants, those included that it has waited for.
pub fn cpu_time(pid: u32) -> Duration {
    let own = running(pid) + waited_for(pid);
    descendants(pid).into_iter().map(running).sum::<Duration>() + own
}

/// Nanoseconds on a CPU, of all its threads (proc(5): the first field of `schedstat`).
fn running(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let nanos = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// `cutime` and `cstime` of proc(5), in ticks.
fn waited_for(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces: fields are counted from its end, where the third begins.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

fn descendants(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let children = children(parent);
        next.extend(&children);
        found.extend(&children);
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Whether a TCP socket listens on `port` of the process's network namespace.
pub fn listens(pid: u32, port: u16) -> bool {
    listeners(pid).iter().any(|(known, _)| *known == port)
}

/// Whether a Unix socket listens at `path`. `bind` makes it, and `listen` comes later.
pub fn listens_at(pid: u32, path: &Path) -> bool {
    let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
    let mut listeners = table.lines().filter_map(unix_listener);
    listeners.any(|known| Path::new(known) == path)
}

/// The path of a line of /proc/net/unix, if its flags say that it accepts (__SO_ACCEPTCON, include/linux/net.h).
fn unix_listener(line: &str) -> Option<&str> {
    const ACCEPTS: u32 = 1 << 16;
    let flags = line.split_whitespace().nth(3)?;
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let path = line.find(" /").map(|at| line[at + 1..].trim_end())?;
    (flags & ACCEPTS != 0).then_some(path)
}

/// Whether this process or one of its descendants has a listening TCP socket.
pub fn has_listener(pid: u32) -> bool {
    let inodes: BTreeSet<String> = listeners(pid).into_iter().map(|(_, inode)| inode).collect();
    let mut pids = descendants(pid);
    pids.push(pid);
    pids.iter().any(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| {
            let name = link.to_string_lossy();
            let inode = name
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'));
            inode.is_some_and(|inode| inodes.contains(inode))
        })
    })
}

/// Ports and inodes of the sockets that listen in the process's network namespace.
fn listeners(pid: u32) -> Vec<(u16, String)> {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|text| text.lines().filter_map(listener).collect::<Vec<_>>())
        .collect()
}

/// A line of /proc/net/tcp, if its state is 0A: listening.
fn listener(line: &str) -> Option<(u16, String)> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let port = u16::from_str_radix(port, 16).ok()?;
    (state == "0A").then(|| (port, inode.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let listening = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 31337 1 0000000000000000 100 0 0 10 0";
        assert_eq!(listener(listening), Some((8080, "31337".to_owned())));
        assert_eq!(listener(&listening.replace(" 0A ", " 01 ")), None);
        assert_eq!(listener("  sl  local_address rem_address   st"), None);
        let listening = "0000000000000000: 00000002 00000000 00010000 0001 01 31337 /tmp/a socket";
        assert_eq!(unix_listener(listening), Some("/tmp/a socket"));
        assert_eq!(
            unix_listener(&listening.replace("00010000", "00000000")),
            None
        );
        assert_eq!(
            unix_listener("Num       RefCount Protocol Flags    Type St Inode Path"),
            None
        );
    }

    #[test]
    fn a_unix_socket_that_is_bound_does_not_listen_yet() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let path = std::env::temp_dir().join(format!("ulsock-unix-{}", std::process::id()));
        let here = std::process::id();
        let server = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert!(path.exists() && !listens_at(here, &path));
        listen(&server, 1).unwrap();
        assert!(listens_at(here, &path));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn own_time_grows() {
        let before = cpu_time(std::process::id());
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {}
        assert!(cpu_time(std::process::id()) > before);
    }
}
