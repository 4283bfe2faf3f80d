//! Where programs find the daemon: sockets in the run directory, named after the network namespace, and a
//! lock that says that it lives. For programs in containers there is one more socket, in a folder of its own,
//! which can be mounted into them: a folder, because the socket of the next daemon is another file.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{AtFlags, Mode, chmodat};
use rustix::io::{self, Errno};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use super::names::{self, NoDoor, take_lock};
use os::tcp;
use rendezvous::channel::{Channel, address};
use rendezvous::rundir::{HOST, HOST_DOOR, RunDir};

const BACKLOG: i32 = 128;
/// Those who have asked how things are, and are told at a look.
const MOST_TOLD: usize = 16;
/// For that a socket has room.
const USUAL_ROOM: usize = 64 << 10;
/// Behind the name: who connects there is told how things are.
pub const STATUS: &str = ".status";

/// The network namespace that we are in.
pub fn namespace() -> io::Result<u64> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    tcp::netns_cookie(socket.as_fd())
}

pub struct Door {
    pub namespace: u64,
    name: String,
    dir: RunDir,
    programs: OwnedFd,
    status: OwnedFd,
    /// Held, not used: its lock dies with us.
    _lock: OwnedFd,
}

impl Door {
    pub fn open(dir: &RunDir) -> Result<Door, NoDoor> {
        let failed = |what| move |errno| NoDoor::Failed(what, errno);
        let namespace = namespace().map_err(failed("cannot name the network namespace"))?;
        let name = address::daemon_file(namespace).map_err(failed("no name for the socket"))?;
        let name = name.to_string();
        let lock = take_lock(dir, &name)?;
        Ok(Door {
            programs: open_socket(dir, SocketType::SEQPACKET, &name)?,
            status: open_socket(dir, SocketType::STREAM, &format!("{name}{STATUS}"))?,
            dir: dir.duplicate().map_err(failed("the run directory"))?,
            namespace,
            name,
            _lock: lock,
        })
    }

    pub fn programs(&self) -> BorrowedFd<'_> {
        self.programs.as_fd()
    }

    pub fn run_dir(&self) -> io::Result<RunDir> {
        self.dir.duplicate()
    }

    pub fn status(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    /// The next program that has connected.
    pub fn accept(&self) -> Knock {
        accept_channel(&self.programs)
    }

    /// Tells some of those who have asked. `false`: there are no descriptors to do so.
    pub fn tell(&self, status: &str) -> bool {
        for _ in 0..MOST_TOLD {
            match accept(&self.status) {
                // What its buffer does not take, it does not get: nobody waits for it.
                Ok(asker) => {
                    make_room(&asker, status.len());
                    drop(UnixStream::from(asker).write(status.as_bytes()));
                }
                Err(errno) => return !is_want(errno),
            }
        }
        true
    }
}

/// Of very many hosts there is more to tell than sockets usually have room for.
fn make_room(asker: &OwnedFd, length: usize) {
    if length > USUAL_ROOM {
        let room = 2 * length;
        let forced = sockopt::set_socket_send_buffer_size_force(asker, room);
        // Without CAP_NET_ADMIN as much as there may be.
        let _ = forced.or_else(|_| sockopt::set_socket_send_buffer_size(asker, room));
    }
}

impl Drop for Door {
    /// The lock goes last: while it is held nobody else makes sockets of these names.
    fn drop(&mut self) {
        let Door { name, dir, .. } = self;
        for file in [name.clone(), format!("{name}{STATUS}")] {
            dir.remove(&file);
        }
    }
}

/// For programs in containers.
pub struct HostDoor {
    dir: RunDir,
    guests: OwnedFd,
    /// Held, not used: its lock dies with us.
    _lock: OwnedFd,
}

impl HostDoor {
    pub fn open(dir: &RunDir) -> Result<HostDoor, NoDoor> {
        let taken = [Errno::PERM, Errno::NOTDIR, Errno::LOOP];
        let dir = names::make(dir, HOST, &taken, || dir.folder(HOST))?;
        let lock = take_lock(&dir, HOST_DOOR)?;
        let guests = open_socket(&dir, SocketType::SEQPACKET, HOST_DOOR)?;
        Ok(HostDoor {
            dir,
            guests,
            _lock: lock,
        })
    }

    pub fn guests(&self) -> BorrowedFd<'_> {
        self.guests.as_fd()
    }

    /// The next program that has connected.
    pub fn accept(&self) -> Knock {
        accept_channel(&self.guests)
    }
}

impl Drop for HostDoor {
    fn drop(&mut self) {
        self.dir.remove(HOST_DOOR);
    }
}

/// Who is at a door.
pub enum Knock {
    Came(Channel),
    Nobody,
    /// There are no descriptors to let anybody in: the door would call us for ever.
    NoRoom,
}

fn accept_channel(listener: &OwnedFd) -> Knock {
    match accept(listener).and_then(Channel::accepted) {
        Ok(channel) => Knock::Came(channel),
        Err(errno) if is_want(errno) => Knock::NoRoom,
        Err(_) => Knock::Nobody,
    }
}

fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// Of descriptors, or of memory.
pub fn is_want(errno: Errno) -> bool {
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    wants.contains(&errno)
}

/// Everybody may connect: what they may do is decided by what they show. A socket that a daemon before us has left goes.
fn open_socket(dir: &RunDir, kind: SocketType, name: &str) -> Result<OwnedFd, NoDoor> {
    names::make(dir, name, &[Errno::ADDRINUSE], || {
        dir.remove(name);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
        bind(&socket, &address::of_file(dir, name)?)?;
        chmodat(dir, name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous::rundir::LOCK;
    use rendezvous::rundir::scratch::Scratch;

    #[test]
    fn there_is_one_at_a_time() {
        let dir = Scratch::new();
        let door = Door::open(&dir).unwrap_or_else(|why| panic!("{why}"));
        match Door::open(&dir) {
            Err(NoDoor::Taken(pid)) => assert_eq!(pid, std::process::id().to_string()),
            _ => panic!("two daemons"),
        }
        let mut names = dir.names();
        names.sort();
        let name = address::daemon_file(door.namespace).unwrap();
        let name = &*name;
        let all = ["", LOCK, STATUS].map(|end| format!("{name}{end}"));
        assert_eq!(names, all);
        drop(door);
        assert_eq!(dir.names(), [format!("{name}{LOCK}")]);
        assert!(Door::open(&dir).is_ok());
    }

    #[test]
    fn containers_have_one_in_a_folder_that_is_ours() {
        let dir = Scratch::new();
        let door = HostDoor::open(&dir).unwrap_or_else(|why| panic!("{why}"));
        assert!(matches!(HostDoor::open(&dir), Err(NoDoor::Taken(_))));
        let there = Channel::connect_to_host(&dir).unwrap();
        assert!(there.peer().is_ok() && matches!(door.accept(), Knock::Came(_)));
        drop(door);
        assert!(Channel::connect_to_host(&dir).is_err());
        assert!(HostDoor::open(&dir).is_ok());
        let elsewhere = Scratch::new();
        let folder = elsewhere.path.join(HOST);
        std::os::unix::fs::symlink(&dir.path, folder).unwrap();
        assert!(HostDoor::open(&elsewhere).is_err());
    }

    /// Needs root.
    #[test]
    fn a_stranger_who_was_first_keeps_no_daemon_from_starting() {
        let dir = Scratch::new();
        let name = address::daemon_file(namespace().unwrap()).unwrap();
        let squatted = ["", STATUS, LOCK].map(|end| format!("{}{end}", &*name));
        for name in squatted.iter().map(String::as_str).chain([HOST]) {
            let path = dir.path.join(name);
            std::fs::create_dir_all(path.join("full")).unwrap();
            std::os::unix::fs::chown(path, Some(1002), Some(1002)).unwrap();
        }
        let door = Door::open(&dir).unwrap_or_else(|why| panic!("{why}"));
        let host = HostDoor::open(&dir).unwrap_or_else(|why| panic!("{why}"));
        assert!(Channel::connect_to_daemon(&dir, door.namespace).is_ok());
        assert!(Channel::connect_to_host(&dir).is_ok());
        assert!(matches!(host.accept(), Knock::Came(_)));
    }
}
