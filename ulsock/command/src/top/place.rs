//! Where a program runs: its container or its unit, by its control group.

use std::fs;

/// Shown of the number of a container.
const SHOWN: usize = 12;

/// As it can be printed; empty if it is in no group of its own.
pub fn of(pid: u32) -> String {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    os::plain::plain(name(&groups).as_bytes())
}

/// The last part of the path that says something.
fn name(groups: &str) -> &str {
    let path = groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .find(|path| path.len() > 1)
        .unwrap_or_default();
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
    // Runtimes put the processes of a container into a group within its own.
    let inner = |part: &&str| matches!(*part, "init" | "container" | "init.scope" | "payload");
    let part = parts.find(|part| !inner(part)).unwrap_or_default();
    container(part).unwrap_or(part)
}

/// As docker, podman, containerd and cri-o call their groups.
fn container(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let number = part.rsplit_once('-').map_or(part, |(_, number)| number);
    let is_number = number.len() >= 32 && number.bytes().all(|it| it.is_ascii_hexdigit());
    is_number.then(|| &number[..SHOWN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_groups() {
        let number = "0123456789abcdef".repeat(4);
        let docker = format!("0::/system.slice/docker-{number}.scope\n");
        let podman = format!("0::/machine.slice/libpod-{number}.scope/container\n");
        let kubernetes = format!("0::/kubepods/burstable/pod12/{number}\n");
        let cases = [
            ("0::/\n", ""),
            ("", ""),
            (
                "0::/system.slice/redis-server.service\n",
                "redis-server.service",
            ),
            (
                "0::/user.slice/user-0.slice/session-3.scope\n",
                "session-3.scope",
            ),
            (&docker, "0123456789ab"),
            (&podman, "0123456789ab"),
            (&kubernetes, "0123456789ab"),
            ("4:memory:/\n1:name=systemd:/a.slice\n", "a.slice"),
            ("nonsense", ""),
        ];
        for (groups, expected) in cases {
            assert_eq!(name(groups), expected, "{groups}");
        }
    }
}
