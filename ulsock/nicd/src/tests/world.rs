//! Two hosts: network namespaces without a name, joined by a veth pair, each with a run directory and a
//! daemon of its own. The daemon is this very test program, started anew.

use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::identity::Identity;
use crate::interface::PortKind;
use crate::signals;
use crate::status::{self, PeerStatus, Status};
use crate::{Nicd, Options, PeersFrom};

/// Where a child finds what it needs.
const FOLDER: &str = "NICD_TEST_FOLDER";

/// The child: a daemon.
#[test]
#[ignore = "the other tests start it"]
fn daemon() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let host = std::env::var("NICD_TEST_HOST").expect("a host");
    let key = folder.join(format!("{host}.key"));
    let port = match std::env::var("NICD_TEST_PORT").as_deref() {
        Ok("xdp") => PortKind::Xdp,
        Ok("udp") => PortKind::Udp,
        _ => PortKind::Packet,
    };
    if let Some(limit) = number_from("NICD_TEST_LIMIT") {
        let limit = limit as u64;
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(Resource::Nofile, limit).expect("a limit");
    }
    let started = Nicd::start(Options {
        run_dir: &folder.join(host),
        peers: PeersFrom::File(folder.join("peers")),
        identity: Identity::load(&key).unwrap_or_else(|why| panic!("{why}")),
        port,
        device: Default::default(),
        impairment: None,
        lease_to: Vec::new(),
        engines: number_from("NICD_TEST_ENGINES").unwrap_or(1),
        store: None,
    });
    started.unwrap_or_else(|why| panic!("{why}")).run();
}

fn number_from(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Asks until it is so.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

pub struct TestHost {
    namespace: File,
    pub run_dir: PathBuf,
    number: usize,
    /// Of the daemon's descriptors.
    limit: Option<u64>,
    pub engines: usize,
    daemon: Option<Child>,
}

impl TestHost {
    fn new(folder: &Path, number: usize) -> TestHost {
        let make = || {
            // SAFETY: only the network namespace, and only of this thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root");
            File::open("/proc/thread-self/ns/net").expect("our namespace")
        };
        let run_dir = folder.join(number.to_string());
        fs::create_dir(&run_dir).expect("a run directory");
        fs::set_permissions(&run_dir, Permissions::from_mode(0o1777)).expect("its mode");
        TestHost {
            namespace: thread::spawn(make).join().expect("a namespace"),
            run_dir,
            number,
            limit: None,
            engines: 1,
            daemon: None,
        }
    }

    pub fn address(&self) -> [u8; 4] {
        [10, 9, 0, self.number as u8]
    }

    /// One that the peers file says nothing about.
    pub fn other_address(&self) -> [u8; 4] {
        [10, 9, 1, self.number as u8]
    }

    /// Does something there: what is opened stays there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.namespace.as_fd(), kind).expect("the namespace");
            act()
        };
        thread::scope(|scope| scope.spawn(enter).join()).expect("what was to be done there")
    }

    pub fn ip(&self, words: &str) {
        let run = || Command::new("ip").args(words.split(' ')).status();
        assert!(self.within(run).expect("ip").success(), "ip {words}");
    }

    pub fn start(&mut self, folder: &Path, port: &str) {
        let run = || {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            // SAFETY: the closure only makes system calls, which are async-signal-safe. The test harness has a thread of
            // its own, which would die of SIGTERM.
            unsafe { command.pre_exec(|| signals::open().map(std::mem::forget)) };
            command
                .args(["tests::world::daemon", "--exact", "--ignored"])
                .args(["--nocapture", "--test-threads=1"])
                .env(FOLDER, folder)
                .env("NICD_TEST_HOST", self.number.to_string())
                .env("NICD_TEST_PORT", port)
                .env("NICD_TEST_ENGINES", self.engines.to_string())
                .envs(self.limit.map(|it| ("NICD_TEST_LIMIT", it.to_string())))
                .stdout(Stdio::null())
                .spawn()
                .expect("a daemon")
        };
        self.daemon = Some(self.within(run));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("to signal");
    }

    /// Until it has stopped: signalled alone, it may still answer a packet.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED)
            .expect("to wait")
            .expect("a child");
        assert!(status.stopped(), "{status:?}");
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.daemon.as_ref().expect("a daemon"))
    }

    /// Until it has ended.
    pub fn wait(&mut self) {
        let mut child = self.daemon.take().expect("a daemon");
        eventually("the daemon's end", || child.try_wait().expect("a child"));
    }

    pub fn status(&self) -> Option<Status> {
        self.within(|| status::ask(&self.run_dir).ok())
    }

    /// What the daemon says of the other host, once it is so.
    pub fn wait_for(&self, what: &str, is: impl Fn(&PeerStatus) -> bool) {
        eventually(what, || {
            let status = self.status()?;
            status.peers.first().filter(|peer| is(peer)).map(|_| ())
        });
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub struct World {
    pub folder: tempfile::TempDir,
    pub hosts: [TestHost; 2],
}

impl World {
    /// With daemons that know each other.
    pub fn new(port: &str) -> World {
        World::with(port, None, [1; 2])
    }

    /// The same, and so many engines of each daemon.
    pub fn with_engines(engines: [usize; 2]) -> World {
        World::with("packet", None, engines)
    }

    /// The same, and so many descriptors for each daemon.
    pub fn with_limit(port: &str, limit: Option<u64>) -> World {
        World::with(port, limit, [1; 2])
    }

    fn with(port: &str, limit: Option<u64>, engines: [usize; 2]) -> World {
        let mut world = World::wired();
        for (host, engines) in world.hosts.iter_mut().zip(engines) {
            (host.limit, host.engines) = (limit, engines);
            host.start(world.folder.path(), port);
        }
        world.wait_until_up();
        world
    }

    /// Without daemons.
    pub fn wired() -> World {
        // As run directories are, in memory: a busy disk would delay programs that register names.
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let hosts = [1, 2].map(|number| TestHost::new(folder.path(), number));
        let there = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            hosts[1].namespace.as_raw_fd()
        );
        hosts[0].ip(&format!(
            "link add eth0 type veth peer name eth0 netns {there}"
        ));
        let mut peers = String::new();
        for host in &hosts {
            let [.., last] = host.address();
            host.ip("link set lo up");
            for net in ["10.9.0", "10.9.1"] {
                host.ip(&format!("addr add {net}.{last}/24 dev eth0"));
            }
            host.ip("link set eth0 up");
            let identity = Identity::generate().expect("a key");
            let key = folder.path().join(format!("{last}.key"));
            identity.store(&key).expect("to store it");
            peers += &format!("10.9.0.{last} keys={}\n", identity.public());
        }
        fs::write(folder.path().join("peers"), peers).expect("a peers file");
        World { folder, hosts }
    }

    pub fn wait_until_up(&self) {
        for host in &self.hosts {
            host.wait_for("a link", |peer| {
                peer.in_touch && (peer.link_up || peer.at_rest)
            });
        }
    }
}
