//! How much more memory the control groups of this process leave it.
//!
//! The memory of a ring counts there, and asking for more than is left does not fail: the kernel kills a process of the
//! group (mm/memcontrol.c, `mem_cgroup_oom`). A socket of the kernel's gets a smaller buffer instead. So who wants
//! memory for rings asks here before.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io;
use rustix::time::{ClockId, clock_gettime};

use super::fds::Transient;
use super::proc;

/// Of what is left to all processes of a group, one takes at most this part at a time: others want some, too.
const PART: u64 = 8;
/// So much stays free for what the programs themselves want: a part of the limit, within bounds.
const RESERVE_PART: u64 = 16;
const RESERVE: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 20;
/// From this size on groups with a limit are asked each time.
const LARGE: u64 = 256 << 10;
/// Milliseconds for which an answer holds: with a limit, and without one.
const LIMITED: u64 = 20;
const UNLIMITED: u64 = 1000;
/// Version 1 has this, less part of a page, for "no limit".
const NO_LIMIT: u64 = 1 << 62;

crate::process_wide! {
    /// What we may take until then without asking again.
    static GRANTED: AtomicU64 = AtomicU64::new(0);
    static UNTIL: AtomicU64 = AtomicU64::new(0);
}

/// May so much memory be taken for rings? It is then taken as taken.
pub fn leave(bytes: u64) -> bool {
    let now = milliseconds();
    let is_much = bytes >= LARGE && GRANTED.load(Ordering::Relaxed) != u64::MAX;
    if is_much || now >= UNTIL.load(Ordering::Relaxed) {
        let granted = left().map_or(u64::MAX, |left| left / PART);
        let holds = if granted == u64::MAX {
            UNLIMITED
        } else {
            LIMITED
        };
        GRANTED.store(granted, Ordering::Relaxed);
        UNTIL.store(now + holds, Ordering::Relaxed);
    }
    let take = |granted: u64| match granted {
        u64::MAX => Some(u64::MAX),
        granted => granted.checked_sub(bytes),
    };
    GRANTED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
}

fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The names of a version's files, and where it is mounted everywhere.
struct Version {
    mount: &'static [u8],
    /// What makes a line of /proc/self/cgroup one of memory.
    controllers: &'static [u8],
    limits: &'static [&'static [u8]],
    used: &'static [u8],
    /// Pages of files: they go before anybody is killed.
    reclaimable: [&'static [u8]; 2],
}

const VERSIONS: [Version; 2] = [
    Version {
        mount: b"/sys/fs/cgroup",
        controllers: b"",
        limits: &[b"memory.max", b"memory.high"],
        used: b"memory.current",
        reclaimable: [b"inactive_file", b"active_file"],
    },
    Version {
        mount: b"/sys/fs/cgroup/memory",
        controllers: b"memory",
        limits: &[b"memory.limit_in_bytes"],
        used: b"memory.usage_in_bytes",
        reclaimable: [b"total_inactive_file", b"total_active_file"],
    },
];

/// What the groups leave to all their processes, less a reserve. `None`: there is no limit, or none that can be read.
pub fn left() -> Option<u64> {
    let mut text = [0; 4096];
    let groups = proc::read_own(format_args!("cgroup"), &mut text).ok()?;
    let left = |version: &Version| left_in(version, version.mount, group(version, groups)?);
    VERSIONS.iter().filter_map(left).min()
}

/// The group of this process, from lines `number:controllers:/path`.
fn group<'a>(version: &Version, text: &'a [u8]) -> Option<&'a [u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let (controllers, path) = (parts.nth(1)?, parts.next()?);
        let mut names = controllers.split(|byte| *byte == b',');
        names
            .any(|name| name == version.controllers)
            .then_some(path)
    })
}

/// The least that any of the groups above leaves. In a container not all of them can be seen, and what is its own lies
/// at the top.
fn left_in(version: &Version, mount: &[u8], group: &[u8]) -> Option<u64> {
    let mut group = group;
    let mut least = None;
    loop {
        let here = left_here(version, &[mount, group]);
        least = [least, here].into_iter().flatten().min();
        let above = group.iter().rposition(|byte| *byte == b'/');
        match above {
            Some(above) => group = &group[..above],
            None => return least,
        }
    }
}

fn left_here(version: &Version, folder: &[&[u8]; 2]) -> Option<u64> {
    let limit = |name: &&[u8]| number_in(folder, name);
    let limit = version.limits.iter().filter_map(limit).min()?;
    if limit >= NO_LIMIT {
        return None;
    }
    let used = number_in(folder, version.used)?;
    let mut text = [0; 8192];
    let statistics = read(folder, b"memory.stat", &mut text).unwrap_or_default();
    let fields = version.reclaimable.iter();
    let reclaimable: u64 = fields.filter_map(|name| field(statistics, name)).sum();
    let used = used.saturating_sub(reclaimable);
    let reserve = (limit / RESERVE_PART).clamp(*RESERVE.start(), *RESERVE.end());
    Some(limit.saturating_sub(used).saturating_sub(reserve))
}

/// `None` for "max", too.
fn number_in(folder: &[&[u8]; 2], name: &[u8]) -> Option<u64> {
    let mut text = [0; 32];
    number(read(folder, name, &mut text)?)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

/// From lines `name number`.
fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(b" ")?;
        number(rest)
    })
}

/// The beginning of a file, without allocating.
fn read<'a>(folder: &[&[u8]; 2], name: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0; 1024];
    let mut len = 0;
    for part in [folder[0], folder[1], b"/", name] {
        path.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = Transient::new(openat(CWD, &path[..len], flags, Mode::empty()).ok()?);
    let n = io::read(&file, &mut *buffer).ok()?;
    buffer.get(..n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    const MIB: u64 = 1 << 20;
    const V2: &Version = &VERSIONS[0];
    const V1: &Version = &VERSIONS[1];

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn left_below(version: &Version, mount: &Path, group: &str) -> Option<u64> {
        left_in(version, mount.as_os_str().as_bytes(), group.as_bytes())
    }

    #[test]
    fn the_group_is_found_in_either_version() {
        let text = b"12:cpu,memory:/docker/ab\n3:memoryx:/no\n0::/user.slice/a:b\n";
        assert_eq!(group(V1, text), Some(&b"/docker/ab"[..]));
        assert_eq!(group(V2, text), Some(&b"/user.slice/a:b"[..]));
        assert_eq!(group(V1, b"0::/\n"), None);
        assert_eq!(group(V2, b"garbage\n\n::"), Some(&b""[..]));
    }

    /// The tightest group counts, and pages that the kernel would take back are free.
    #[test]
    fn the_tightest_group_above_counts() {
        let top = tempfile::tempdir().unwrap();
        let files = |max, current, stat| {
            [
                ("memory.max", max),
                ("memory.high", "max\n"),
                ("memory.current", current),
                ("memory.stat", stat),
            ]
        };
        let (outer, inner) = (top.path().join("a"), top.path().join("a/b"));
        write(
            &outer,
            &files(
                "104857600\n",
                "52428800\n",
                "anon 1\ninactive_file 8388608\nactive_file 2097152\n",
            ),
        );
        write(&inner, &files("max\n", "1\n", ""));
        let left = left_below(V2, top.path(), "/a/b");
        assert_eq!(left, Some(60 * MIB - 100 * MIB / RESERVE_PART));
        write(&inner, &files("2097152\n", "9999999\n", ""));
        assert_eq!(left_below(V2, top.path(), "/a/b"), Some(0));
    }

    #[test]
    fn no_limit_and_no_group_are_no_limit() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(left_below(V2, top.path(), "/not/there"), None);
        let files = [("memory.limit_in_bytes", "9223372036854771712\n")];
        write(top.path(), &files);
        assert_eq!(left_below(V1, top.path(), "/"), None);
        write(top.path(), &[("memory.limit_in_bytes", "no number\n")]);
        assert_eq!(left_below(V1, top.path(), "/x"), None);
    }

    /// A container sees the path of its host, and its own group at the top.
    #[test]
    fn a_container_finds_its_own_limit() {
        let top = tempfile::tempdir().unwrap();
        let files = [
            ("memory.limit_in_bytes", "41943040"),
            ("memory.usage_in_bytes", "8388608"),
            ("memory.stat", "cache 5\ntotal_inactive_file 4194304\n"),
        ];
        write(top.path(), &files);
        let left = left_below(V1, top.path(), "/docker/0123456789abcdef");
        assert_eq!(left, Some(36 * MIB - 40 * MIB / RESERVE_PART));
    }
}
