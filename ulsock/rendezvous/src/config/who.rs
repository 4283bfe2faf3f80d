//! Which program a process runs, and for whom: what the rules of the configuration file ask for.

use std::ffi::CStr;
use std::path::Path;

use rustix::fs::{CWD, readlinkat_raw};
use rustix::process::geteuid;

use super::file::read_bounded;
use super::glob;

/// Where names of users are. Other sources (NSS) would load libraries into the program, and ask servers.
const USERS: &str = "/etc/passwd";
const MOST_USERS: u64 = 4 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The file that the kernel runs: of a script, its interpreter.
    pub file: Vec<u8>,
    /// The path by which it was started: a link, or the script.
    pub started_as: Vec<u8>,
    pub uid: u32,
}

impl Who {
    /// This process. Cheap, for it is asked in every program with a file: one system call.
    pub fn myself() -> Who {
        let mut target = [0_u8; 4096];
        // Without /proc the other name has to do.
        let file = match readlinkat_raw(CWD, "/proc/self/exe", &mut target[..]) {
            Ok(len) => target.get(..len).unwrap_or_default().to_vec(),
            Err(_) => Vec::new(),
        };
        Who {
            file,
            started_as: started_as(),
            uid: geteuid().as_raw(),
        }
    }

    /// By its path if the pattern has one, by its name otherwise.
    pub fn is_program(&self, pattern: &str) -> bool {
        let names = [&self.file, &self.started_as];
        let is_path = pattern.contains('/');
        let mut named = names.iter().filter(|name| !name.is_empty());
        named.any(|path| match is_path {
            true => glob::matches(pattern.as_bytes(), path),
            false => glob::matches(pattern.as_bytes(), base_name(path)),
        })
    }

    /// By number or by name.
    pub fn is_user(&self, user: &str) -> bool {
        let uid = user.parse().ok().or_else(|| uid_of(user));
        uid == Some(self.uid)
    }
}

/// As the kernel has noted it for the program.
fn started_as() -> Vec<u8> {
    // SAFETY: takes and returns a number.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    match path.is_null() {
        true => Vec::new(),
        // SAFETY: the kernel has put a string there, which lives as long as the process (getauxval(3)).
        false => unsafe { CStr::from_ptr(path) }.to_bytes().to_vec(),
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The number of a user of this host.
pub fn uid_of(name: &str) -> Option<u32> {
    let file = super::file::open(Path::new(USERS)).ok()?;
    let text = read_bounded(&file, MOST_USERS).ok()?;
    find_uid(&String::from_utf8_lossy(&text), name)
}

fn find_uid(text: &str, name: &str) -> Option<u32> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then_some(())?;
        fields.nth(1)?.parse().ok()
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian_redis() -> Who {
        Who {
            file: b"/usr/bin/redis-check-rdb".to_vec(),
            started_as: b"/usr/bin/redis-server".to_vec(),
            uid: 33,
        }
    }

    #[test]
    fn a_program_is_known_by_both_names() {
        let who = debian_redis();
        for pattern in [
            "redis-server",
            "redis-check-rdb",
            "redis-*",
            "/usr/bin/redis-server",
            "*/redis-*",
        ] {
            assert!(who.is_program(pattern), "{pattern}");
        }
        for pattern in ["redis", "bin/redis-server", "/bin/redis-server", ""] {
            assert!(!who.is_program(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_user_is_known_by_number_and_name() {
        let mut who = debian_redis();
        assert!(who.is_user("33") && !who.is_user("34") && !who.is_user("no such user"));
        who.uid = 0;
        assert!(who.is_user("root") && who.is_user("0"));
        let users = "root:x:0:0::/root:/bin/sh\nbad\nweb:x:not:\nweb:x:33:33::/:/bin/sh\n";
        assert_eq!(find_uid(users, "web"), None.or(Some(33)));
        assert_eq!(find_uid(users, "bad"), None);
    }

    #[test]
    fn this_process_knows_itself() {
        let who = Who::myself();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(who.file, exe.as_os_str().as_encoded_bytes());
        assert!(!who.started_as.is_empty());
    }
}
