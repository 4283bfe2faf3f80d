//! The names that Unix sockets of our network namespace are bound to.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Looked up again after so long.
const AGE: Duration = Duration::from_secs(1);

struct Names {
    read: Instant,
    by_inode: HashMap<u32, String>,
}

/// The path or abstract name (with an `@`) of the socket with this number, if it has one.
pub fn name(inode: u32) -> Option<String> {
    static NAMES: Mutex<Option<Names>> = Mutex::new(None);
    let mut names = NAMES.lock().ok()?;
    if names
        .as_ref()
        .is_none_or(|names| names.read.elapsed() > AGE)
    {
        let text = std::fs::read("/proc/net/unix").unwrap_or_default();
        *names = Some(Names {
            read: Instant::now(),
            by_inode: parse(&String::from_utf8_lossy(&text)),
        });
    }
    names.as_ref()?.by_inode.get(&inode).cloned()
}

/// Lines of `Num RefCount Protocol Flags Type St Inode Path`. Control characters, which a name may have, do not come to a
/// terminal.
fn parse(text: &str) -> HashMap<u32, String> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let inode = words.nth(6)?.parse().ok()?;
        let name = words.next()?;
        let plain = |it: char| if it.is_control() { '?' } else { it };
        Some((inode, name.chars().map(plain).collect()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            ffff: 00000002 00000000 00010000 0001 01 8817373 /run/redis.sock\n\
            ffff: 00000003 00000000 00000000 0001 03 12\n\
            ffff: 00000003 00000000 00000000 0001 03 13 @abstract\x1b[2J\n";
        let names = parse(text);
        assert_eq!(names.len(), 2);
        assert_eq!(names[&8_817_373], "/run/redis.sock");
        assert_eq!(names[&13], "@abstract?[2J");
    }
}
