//! The ports may run in a process whose libc functions are hooks of ours: they call none of them.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Constants and types of libc are fine, functions are not; nor are std's descriptors, which close
/// themselves by libc, its sockets, files and threads.
#[test]
fn nobody_calls_libc() {
    let mut found = Vec::new();
    files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/phy"),
        &mut found,
    );
    assert!(found.len() > 15);
    for path in found {
        let text = fs::read_to_string(&path).expect("text");
        let code = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            let calls = line.split("libc::").skip(1).any(|rest| {
                let name_ends = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let rest = &rest[name_ends.unwrap_or(rest.len())..];
                rest.starts_with('(')
            });
            let std = [
                "std::thread",
                "std::fs",
                "UdpSocket",
                "TcpStream",
                "std::process",
            ];
            let uses = std.iter().any(|name| line.contains(name));
            assert!(!calls && !uses, "{}: {line}", path.display());
        }
    }
}
