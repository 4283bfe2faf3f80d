//! What a process has done or was given that ulsock depends on: a filter of system calls, io_urings, limits, and the
//! namespaces that it is in.

use std::fs::{read_dir, read_link};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Process, read};
use crate::doctor::findings::Findings;

const URING: &str = "anon_inode:[io_uring]";
/// Those of a family of processes with connections, whatever its run directory.
const FAMILY: &str = "/memfd:ulsock";
/// With fewer descriptors the library is off (`calls/limits.rs`).
const FEWEST_DESCRIPTORS: u64 = 64;

pub fn tell(findings: &mut Findings, process: &Process) {
    findings.title("State");
    tell_filter(findings, process);
    tell_limits(findings, process);
    tell_descriptors(findings, process);
    tell_namespaces(findings, process);
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&read(path).unwrap_or_default()).into_owned()
}

/// A line of its status, without its name.
fn status(folder: &Path, name: &str) -> Option<String> {
    let text = text(&folder.join("status"));
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    line.map(str::to_owned)
}

pub fn effective_user(folder: &Path) -> Option<u32> {
    status(folder, "Uid")?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

fn tell_filter(findings: &mut Findings, process: &Process) {
    match status(&process.entry(""), "Seccomp").as_deref() {
        Some("0") | None => findings.well("seccomp", "no filter of system calls"),
        Some("1") => findings.bad(
            "seccomp",
            "in strict mode: all its connections are on kernel TCP (reason `sandbox`); nothing can be done",
        ),
        Some(_) => findings.tell(
            "seccomp",
            "a filter of system calls. If the program has loaded it by itself, ulsock is off in it (reason \
             `sandbox`): turn the program's sandbox off. If it was started with it (systemd, a container), the filter \
             must allow memfd_create, and netlink sockets for sock_diag",
        ),
    }
}

/// The soft limit; nothing for none.
fn limit(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tell_limits(findings: &mut Findings, process: &Process) {
    let text = text(&process.entry("limits"));
    let mut problems = Vec::new();
    for (name, cure) in [
        ("Max address space", "ulimit -v, LimitAS of systemd"),
        ("Max data size", "ulimit -d, LimitDATA of systemd"),
    ] {
        if let Some(bytes) = limit(&text, name) {
            problems.push(format!(
                "{} {bytes} bytes: lift that ({cure})",
                name.to_lowercase()
            ));
        }
    }
    if let Some(fds) = limit(&text, "Max open files").filter(|fds| *fds < FEWEST_DESCRIPTORS) {
        problems.push(format!(
            "only {fds} descriptors: allow {FEWEST_DESCRIPTORS} or more (ulimit -n)"
        ));
    }
    match problems.is_empty() {
        true => findings.well("limits", "address space unlimited, enough descriptors"),
        false => findings.bad(
            "limits",
            &format!("{}; ulsock is off with this", problems.join("; ")),
        ),
    }
}

fn tell_descriptors(findings: &mut Findings, process: &Process) {
    let entries = read_dir(process.entry("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let targets: Vec<String> = entries
        .filter_map(|entry| read_link(entry.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    let urings = targets.iter().filter(|target| *target == URING).count();
    if urings > 0 {
        findings.tell(
            "io_uring",
            &format!(
                "{urings} of them: connections that they work on are on kernel TCP (reason `io-uring`), others are not; \
                 the manual's chapter on io_uring says which, and when all are"
            ),
        );
    }
    if !targets.iter().any(|target| target.starts_with(FAMILY)) {
        findings.tell(
            "tables",
            "none: it has had no TCP connection yet, or ulsock is off or not loaded",
        );
    }
}

fn namespace(process: &str, kind: &str) -> Option<(u64, u64)> {
    let data = Path::new("/proc")
        .join(process)
        .join("ns")
        .join(kind)
        .metadata()
        .ok()?;
    Some((data.dev(), data.ino()))
}

/// Is it in another namespace of this kind than we are?
pub fn is_elsewhere(process: &Process, kind: &str) -> bool {
    namespace(&process.pid.to_string(), kind) != namespace("self", kind)
}

pub fn is_in_other_root(process: &Process) -> bool {
    let root = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    root(&process.entry("root/")) != root(Path::new("/"))
}

fn tell_namespaces(findings: &mut Findings, process: &Process) {
    let kinds = [
        ("net", "network"),
        ("mnt", "mounts"),
        ("user", "users"),
        ("pid", "process numbers"),
    ];
    let others = kinds.iter().filter(|(kind, _)| is_elsewhere(process, kind));
    let others: Vec<&str> = others.map(|(_, name)| *name).collect();
    if others.is_empty() {
        return findings.well("namespaces", "the same as of this shell");
    }
    findings.tell(
        "namespaces",
        &format!(
            "others than this shell's ({}), as in a container. It gets rings with programs outside only with a run \
             directory that both have, or the host's nicd; with ULSOCK_CLUSTER, if it has a network of its own; and \
             never with other users' namespaces (the manual: Containers)",
            others.join(", ")
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max data size             unlimited            unlimited            bytes\n\
                    Max open files            1024                 524288               files\n\
                    Max address space         4096000              unlimited            bytes\n";
        assert_eq!(limit(text, "Max open files"), Some(1024));
        assert_eq!(limit(text, "Max address space"), Some(4_096_000));
        assert_eq!(limit(text, "Max data size"), None);
    }
}
