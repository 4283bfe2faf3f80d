//! Programs in a unit test: each is a [`Runtime`] with the whole sockets layer, and makes its calls as the preload library
//! would. They talk to each other by sockets of the real kernel, within this process: no program is started.

mod calls;

use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use os::process_wide::Runtime;
use rendezvous::config::{Config, Guarding, Nic, Spin};
use rendezvous::rundir::RunDir;

use crate::calls::life;
use crate::runtime::thread;
use crate::state::give_record::give_record;
use crate::state::record::{Record, State};
use crate::state::{process_group, table};

pub use calls::Fd;

/// Calls on a connection until it must be on rings: some looks at the peer, each side in turn.
const PATIENCE_IN_CALLS: usize = 200;

/// A program with ulsock loaded.
#[derive(Clone, Copy)]
pub struct Program(Runtime);

impl Program {
    /// Starts it, with its run directory in `dir`; `change` says what is not as in the other tests.
    pub fn start(dir: &Path, change: impl FnOnce(&mut Config)) -> Program {
        let mut config = Config {
            run_dir: dir.to_owned(),
            upgrade_after: Some(1),
            // A test steps both sides from one thread: whoever spins waits in vain.
            spin: Spin::Fixed(0),
            guard: Guarding::Off,
            nic: Nic::Off,
            ..Config::default()
        };
        change(&mut config);
        let program = Program(Runtime::new());
        program.run(|| {
            os::pid::note();
            life::start_as(config);
        });
        program
    }

    /// Acts as this program.
    pub fn run<R>(self, act: impl FnOnce() -> R) -> R {
        self.0.run(act)
    }

    /// As by SIGKILL: the kernel closes what it held, and nobody says a last word.
    pub fn is_killed(self) {
        let held: Vec<RawFd> = self.run(|| table::all().map(|(fd, _)| fd).collect());
        for fd in held {
            // SAFETY: the program's own numbers and its library's; nobody acts as this program any more.
            unsafe { rustix::io::close(fd) };
        }
    }

    /// Looks at the record of one of its connections.
    pub fn record<R>(self, fd: Fd, look: impl FnOnce(&Record) -> R) -> R {
        self.run(|| {
            // One that is young has none yet.
            give_record(fd.0);
            let (_, _, record) = process_group::record_of(fd.0).expect("a record");
            look(record)
        })
    }

    /// Has the connection a ring pair?
    pub fn is_managed(self, fd: Fd) -> bool {
        self.record(fd, |record| record.state() == State::Managed)
    }

    /// Are the bytes that it sends, and those that it receives, on a ring?
    pub fn carriers(self, fd: Fd) -> [On; 2] {
        self.record(fd, |record| {
            [record.tx.is_on_ring(), record.rx.is_on_ring()].map(|ring| match ring {
                true => On::Ring,
                false => On::Kernel,
            })
        })
    }
}

/// Where a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Kernel,
    Ring,
}

pub const ON_RINGS: [On; 2] = [On::Ring; 2];
pub const ON_KERNEL: [On; 2] = [On::Kernel; 2];

/// Two programs with one connection.
pub struct World {
    pub client: Program,
    pub server: Program,
    /// Each one's end.
    pub near: Fd,
    pub far: Fd,
    dir: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        for program in [self.client, self.server] {
            program.run(thread::end_in_runtime);
        }
    }
}

impl World {
    /// A connection that is still on kernel TCP.
    pub fn plain() -> World {
        World::between(|_| {}, |_| {})
    }

    /// The same between programs that are configured in another way.
    pub fn between(client: impl FnOnce(&mut Config), server: impl FnOnce(&mut Config)) -> World {
        let dir = tempfile::tempdir().expect("a folder");
        let client = Program::start(dir.path(), client);
        let server = Program::start(dir.path(), server);
        let listener = TcpListener::bind("127.0.0.1:0").expect("to listen");
        let to = listener.local_addr().expect("an address");
        server.adopt_listener(listener.as_raw_fd());
        let near = client.connect(to);
        let far = server.accept(listener.into_raw_fd());
        World {
            client,
            server,
            near,
            far,
            dir,
        }
    }

    /// A connection by Unix sockets that is still on the kernel.
    pub fn over_unix() -> World {
        let dir = tempfile::tempdir().expect("a folder");
        let client = Program::start(dir.path(), |_| {});
        let server = Program::start(dir.path(), |_| {});
        let path = dir.path().join("meeting");
        let listener = UnixListener::bind(&path).expect("to listen");
        server.adopt_listener_of(listener.as_raw_fd(), libc::AF_UNIX);
        let near = client.connect_unix(&path);
        let far = server.accept_named(listener.into_raw_fd(), libc::AF_UNIX);
        World {
            client,
            server,
            near,
            far,
            dir,
        }
    }

    /// A connection with both directions on rings, and nothing in them.
    pub fn promoted() -> World {
        let mut world = World::plain();
        world.promote();
        world
    }

    /// Speaks until both directions are on rings.
    pub fn promote(&mut self) {
        for _ in 0..PATIENCE_IN_CALLS {
            self.round_trip();
            if self.is_on_rings() {
                return;
            }
        }
        panic!(
            "not promoted: {:?}",
            self.client.record(self.near, Record::reason)
        );
    }

    pub fn is_on_rings(&self) -> bool {
        self.client.carriers(self.near) == ON_RINGS && self.server.carriers(self.far) == ON_RINGS
    }

    /// Where both meet, as somebody else opens it.
    pub fn run_dir(&self) -> RunDir {
        RunDir::open(self.dir.path()).expect("a run directory")
    }

    /// One byte there and one back.
    pub fn round_trip(&self) {
        assert_eq!(self.client.send(self.near, b">"), Ok(1));
        assert_eq!(self.server.receive(self.far, 8), Ok(b">".to_vec()));
        assert_eq!(self.server.send(self.far, b"<"), Ok(1));
        assert_eq!(self.client.receive(self.near, 8), Ok(b"<".to_vec()));
    }
}
