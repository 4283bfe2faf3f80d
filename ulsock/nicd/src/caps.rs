//! What nicd may still do once it has started: three capabilities, and no way to more. Called once, by the
//! only thread, when the run directory and the files are open.

use std::fmt;
use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{self, CapabilitySet, CapabilitySets, Gid, Uid};

/// What the ports need, also for a device that comes later. `NET_RAW`: sockets of AF_PACKET and AF_XDP.
/// `NET_ADMIN`: attaching an XDP program, and socket buffers beyond the host's limit. `BPF`: loading it.
/// Not `IPC_LOCK`: an XDP socket's memory counts against the limit of locked memory, which goes instead.
const KEPT: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::BPF, "CAP_BPF"),
];

/// More than a kernel knows; asking for one that it does not know ends the walk.
const CAPABILITIES: u32 = 64;

/// Whom nicd becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Those of its capabilities that nicd was started without; a port that needs one will say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(Vec<&'static str>);

/// Gives up all that is not needed, and becomes `user` if one is given.
pub fn settle(user: Option<User>) -> io::Result<Missing> {
    one_thread()?;
    unlimit_memory();
    if let Some(user) = user {
        become_user(user)?;
    }
    let kept = KEPT
        .iter()
        .fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
    let had = thread::capabilities(None)?;
    shrink_bounds(kept, had)?;
    thread::clear_ambient_capability_set()?;
    let kept = had.permitted & kept;
    thread::set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    thread::set_no_new_privs(true)?;
    let missing = KEPT.iter().filter(|(one, _)| !kept.contains(*one));
    Ok(Missing(missing.map(|(_, name)| *name).collect()))
}

/// Capabilities and users are a thread's own: another thread would keep what we give up.
fn one_thread() -> io::Result<()> {
    match fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other("other threads run already")),
    }
}

/// Without the right to it the limit stays as it is, and may be enough.
fn unlimit_memory() {
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, none);
}

fn become_user(user: User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    // Else the change of user takes them all.
    thread::set_keep_capabilities(true)?;
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)?;
    thread::set_keep_capabilities(false)?;
    Ok(())
}

/// A program that nicd might start by mistake gets no more than nicd has. Who may not do this has no
/// capabilities beyond its bounds anyway: `no_new_privs` keeps it so.
fn shrink_bounds(kept: CapabilitySet, had: CapabilitySets) -> io::Result<()> {
    if !had.permitted.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    // A change of user has cleared it.
    let effective = had.permitted;
    thread::set_capabilities(None, CapabilitySets { effective, ..had })?;
    let known = (0..CAPABILITIES)
        .map(|bit| CapabilitySet::from_bits_retain(1 << bit))
        .take_while(|one| thread::capability_is_in_bounding_set(*one).is_ok());
    for one in known.filter(|one| !kept.contains(*one)) {
        thread::remove_capability_from_bounding_set(one)?;
    }
    Ok(())
}

impl User {
    /// By a name in passwd(5), where system users stand, or by its number.
    pub fn find(name: &str) -> io::Result<User> {
        let users = fs::read_to_string("/etc/passwd")?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such user in /etc/passwd");
        users
            .lines()
            .find_map(|line| User::on(line, name))
            .ok_or_else(unknown)
    }

    fn on(line: &str, wanted: &str) -> Option<User> {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?;
        (name == wanted || uid == wanted).then_some(())?;
        Some(User {
            uid: uid.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }
}

impl Missing {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.join(", ");
        write!(
            f,
            "started without {names}: ports that need it will not open"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd() {
        let line = "daemon:x:1:2:daemon:/usr/sbin:/usr/sbin/nologin";
        let user = Some(User { uid: 1, gid: 2 });
        assert_eq!(User::on(line, "daemon"), user);
        assert_eq!(User::on(line, "1"), user);
        assert_eq!(User::on(line, "2"), None);
        assert_eq!(User::on("daemon", "daemon"), None);
    }

    /// The test runner has threads.
    #[test]
    fn not_behind_the_back_of_other_threads() {
        let other = std::thread::spawn(|| settle(None));
        assert!(other.join().unwrap().is_err());
    }
}
