//! The names in the run directory that are the daemon's. Everybody can write there, as in /tmp, and the names can be
//! guessed: what a stranger has put in our place goes, or else no daemon could start.
//!
//! Called by the [door](super::door). No link is followed, nothing of a stranger's is opened, and nothing in a stranger's
//! folder is touched: whoever can change it meanwhile could lead us elsewhere.

use std::fmt;
use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, openat};
use rustix::io::Errno;

use super::say;
use os::is_regular;
use rendezvous::rundir::{LOCK, RunDir, is_ours};

/// A stranger may put something there again, as often as it is quick enough.
const TRIES: usize = 64;
/// Who can open a file can lock it.
const PRIVATE: u32 = 0o600;

/// Why the daemon has no place in the run directory.
#[derive(Debug)]
pub enum NoDoor {
    /// Another one serves this network namespace; its pid, if it has said so.
    Taken(String),
    /// Something of a stranger's has a name that we need, and is not ours to remove.
    Stranger {
        name: String,
        owner: u32,
    },
    /// What must have this name cannot be made.
    Name(String, Errno),
    Failed(&'static str, Errno),
}

impl fmt::Display for NoDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDoor::Taken(pid) => write!(
                f,
                "another nicd (pid {pid}) serves this network namespace: stop it first"
            ),
            NoDoor::Stranger { name, owner } => write!(
                f,
                "{name} in the run directory belongs to uid {owner}: let root remove it, or set ULSOCK_RUN_DIR to another directory"
            ),
            NoDoor::Name(name, errno) => write!(f, "no {name} in the run directory: {errno}"),
            NoDoor::Failed(what, errno) => write!(f, "{what}: {errno}"),
        }
    }
}

/// Makes something of that name, and sees to it that a stranger's is not in the way. `taken`: how it fails where one is.
pub fn make<T>(
    dir: &RunDir,
    name: &str,
    taken: &[Errno],
    make: impl Fn() -> Result<T, Errno>,
) -> Result<T, NoDoor> {
    let mut made = Err(Errno::EXIST);
    for _ in 0..TRIES {
        free_of_strangers(dir, name)?;
        made = make();
        if !made.as_ref().is_err_and(|why| taken.contains(why)) {
            break;
        }
    }
    made.map_err(|errno| NoDoor::Name(name.to_owned(), errno))
}

/// What a stranger has put there goes; what is ours stays.
fn free_of_strangers(dir: &RunDir, name: &str) -> Result<(), NoDoor> {
    let Ok(stat) = dir.stat(name) else {
        return Ok(());
    };
    if is_ours(&stat) {
        return Ok(());
    }
    dir.put_away(name).map_err(|_| NoDoor::Stranger {
        name: name.to_owned(),
        owner: stat.st_uid,
    })?;
    say!(
        "{name} in the run directory was uid {}'s: put away",
        stat.st_uid
    );
    Ok(())
}

/// The lock that says that a daemon of that name lives. The file stays when we go: another daemon may be waiting to lock
/// it.
pub fn take_lock(dir: &RunDir, name: &str) -> Result<OwnedFd, NoDoor> {
    let name = format!("{name}{LOCK}");
    let failed = |errno| NoDoor::Name(name.clone(), errno);
    let lock = make(dir, &name, &[Errno::EXIST], || open_lock(dir, &name))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = [0; 16];
            let length = rustix::io::pread(&lock, &mut pid, 0).unwrap_or(0);
            let pid = String::from_utf8_lossy(&pid[..length]).trim().to_owned();
            return Err(NoDoor::Taken(pid));
        }
        Err(errno) => return Err(failed(errno)),
    }
    rustix::fs::ftruncate(&lock, 0).map_err(failed)?;
    let pid = format!("{}\n", std::process::id());
    rustix::io::pwrite(&lock, pid.as_bytes(), 0).map_err(failed)?;
    Ok(lock)
}

/// The lock file as it is, or a new one. One of ours that others can open, or have linked to that name, is no lock: it
/// makes room for a new one.
fn open_lock(dir: &RunDir, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match dir.stat(name) {
        Ok(stat) if is_lock(&stat) => {
            let file = openat(dir, name, flags, Mode::empty())?;
            let is_lock = is_lock(&fstat(&file)?);
            return is_lock.then_some(file).ok_or(Errno::EXIST);
        }
        Ok(stat) if is_ours(&stat) => dir.put_away(name)?,
        Ok(_) => return Err(Errno::EXIST),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    openat(dir, name, flags, Mode::from_raw_mode(PRIVATE))
}

fn is_lock(stat: &Stat) -> bool {
    let is_private = stat.st_mode & 0o777 == PRIVATE && stat.st_nlink == 1;
    is_ours(stat) && is_regular(stat) && is_private
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;
    use rendezvous::rundir::ASIDE;
    use rendezvous::rundir::scratch::Scratch;

    const STRANGER: Option<u32> = Some(1002);

    /// Whoever has it open already can lock it as soon as we are gone.
    #[test]
    fn a_lock_that_others_can_open_or_have_linked_is_replaced() {
        let dir = Scratch::new();
        let path = dir.path.join("door.lock");
        for mode in [0o644, 0o666, 0o640] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let held = fs::File::open(&path).unwrap();
            flock(&held, FlockOperation::LockExclusive).unwrap();
            let lock = take_lock(&dir, "door").unwrap_or_else(|why| panic!("{mode:o}: {why}"));
            assert_eq!(fstat(&lock).unwrap().st_mode & 0o777, 0o600);
        }
        let victim = dir.path.join("victim");
        fs::write(&victim, "precious").unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        assert!(take_lock(&dir, "door").is_ok());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    /// A stranger's files, links and folders, where locks, sockets and the folder of containers belong. Needs root.
    #[test]
    fn what_a_stranger_has_put_there_gives_way() {
        let dir = Scratch::new();
        let elsewhere = dir.path.join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        let path = dir.path.join("door.lock");
        let put: [&dyn Fn(); 4] = [
            &|| fs::write(&path, "").unwrap(),
            &|| symlink(&elsewhere, &path).unwrap(),
            &|| fs::create_dir(&path).unwrap(),
            &|| {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("full"), "").unwrap();
            },
        ];
        for (number, put) in put.iter().enumerate() {
            let _ = fs::remove_file(&path);
            put();
            std::os::unix::fs::lchown(&path, STRANGER, STRANGER).unwrap();
            let lock = take_lock(&dir, "door").unwrap_or_else(|why| panic!("{number}: {why}"));
            assert!(is_lock(&fstat(&lock).unwrap()));
        }
        assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
        let aside = dir.names().into_iter().find(|it| it.starts_with(ASIDE));
        let full = dir.path.join(aside.unwrap()).join("full");
        assert!(full.exists(), "what is in it was not touched");
    }

    #[test]
    fn a_stranger_who_is_always_quicker_ends_the_start_and_not_the_time() {
        let dir = Scratch::new();
        let path = dir.path.join("door");
        let squat = || {
            fs::write(&path, "").unwrap();
            chown(&path, STRANGER, STRANGER).unwrap();
            Err::<(), _>(Errno::ADDRINUSE)
        };
        let why = make(&dir, "door", &[Errno::ADDRINUSE], squat).unwrap_err();
        assert!(why.to_string().contains("door"), "{why}");
    }
}
