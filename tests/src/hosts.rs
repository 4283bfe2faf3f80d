//! Several hosts: network namespaces joined by a cable or a bridge, each with a run directory of its own, so
//! that nothing but the network lies between their programs.

mod apart;
mod cluster;
mod distance;
mod etcd;
mod nicd;
mod rules;
mod wires;

pub use cluster::{Members, SourceStatus};
pub use etcd::Guard;
pub use nicd::{EngineStatus, PeerStatus, StoreStatus};

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::ends::kernel_only;
use crate::netns::Namespace;
use crate::place::{extra_settings, print_tail};
use crate::program::{Program, Running, built};
use crate::report::Report;

/// Whose connections may leave the kernel: those to any address of [`wires`].
const CLUSTER: &str = "10.0.0.0/8,fd00::/8";

/// How much of a host's traffic must have gone over the nic carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// Whatever the product decided; only the results count.
    Any,
    /// Something.
    Some,
    /// At least as much as through kernel TCP.
    Most,
}

/// One host.
pub struct Host {
    number: usize,
    /// Its addresses are those of the host with this number.
    seat: usize,
    namespace: Rc<Namespace>,
    run_dir: PathBuf,
    report: PathBuf,
    nicd: RefCell<Option<Running>>,
}

/// The hosts of a test, and its work folder; all is removed on drop, with the programs' output printed first
/// if the test failed. They must be dropped after the programs that they started.
pub struct Hosts {
    folder: PathBuf,
    hosts: Vec<Host>,
    /// Where the bridge is, if there is one.
    switch: Option<Rc<Namespace>>,
    /// What carries frames between two that are far apart.
    distance: Option<distance::Distance>,
    /// Of containers: the daemon of their host.
    above: RefCell<Option<Running>>,
    settings: Vec<(String, String)>,
    /// What the daemons do to all that arrives at them, as `--impair` has it.
    impairment: Option<String>,
    /// How many engines each daemon has, as `--engines` has it; the last for all that follow.
    engines: Vec<usize>,
    /// The daemons' own addresses are IPv6.
    six: bool,
    /// Users that the daemons lease queues to.
    trusted: &'static str,
    /// Where the daemons keep names; then their peers files name themselves alone.
    etcd: Option<etcd::Etcd>,
    programs: Cell<u32>,
}

impl Hosts {
    /// Two hosts with a cable between them.
    pub fn two() -> Self {
        Self::two_where(|_| ())
    }

    /// The same, and their daemons behave as if the cable were bad: `words` are those of `--impair`, but for the
    /// seed.
    pub fn two_impaired(words: &str) -> Self {
        Self::two_where(|hosts| hosts.impairment = Some(words.to_owned()))
    }

    /// The same, and their daemons have so many engines.
    pub fn two_with_engines(engines: [usize; 2]) -> Self {
        Self::two_where(|hosts| hosts.engines = engines.to_vec())
    }

    /// The same, and their daemons know each other by IPv6 addresses.
    pub fn two_by_ipv6() -> Self {
        Self::two_where(|hosts| hosts.six = true)
    }

    /// The same, and no user may have a queue of the NIC: engines in programs go by UDP sockets.
    pub fn two_without_queues() -> Self {
        Self::two_where(|hosts| hosts.trusted = "")
    }

    fn two_where(change: impl FnOnce(&mut Self)) -> Self {
        let mut hosts = Self::unwired(2);
        change(&mut hosts);
        wires::cable(&hosts);
        hosts.with_nicds()
    }

    /// Two hosts far apart: a frame takes so long from one to the other.
    pub fn two_apart(time: Duration) -> Self {
        let mut hosts = Self::unwired(2);
        hosts.distance = Some(distance::join(&hosts, time));
        hosts.with_nicds()
    }

    /// So many hosts on a bridge.
    pub fn on_a_bridge(count: usize) -> Self {
        let mut hosts = Self::unwired(count);
        hosts.switch = Some(Rc::new(Namespace::new().expect("a network namespace")));
        wires::bridge(&hosts);
        hosts.with_nicds()
    }

    fn unwired(count: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ulsock-hosts-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).expect("work folder");
        allow(&folder, 0o755);
        Self {
            hosts: (0..count).map(|n| Host::new(n, &name, &folder)).collect(),
            folder,
            switch: None,
            distance: None,
            above: RefCell::new(None),
            settings: Vec::new(),
            impairment: None,
            engines: vec![1],
            six: false,
            trusted: "root",
            etcd: None,
            programs: Cell::new(0),
        }
    }

    /// They are containers of one host, which has no daemon: all have the first one's run directory.
    pub fn with_one_run_dir(mut self) -> Self {
        for host in &self.hosts {
            drop(host.nicd.take());
        }
        let shared = self.hosts[0].run_dir.clone();
        // Whichever user comes first.
        fs::create_dir_all(&shared).expect("run directory");
        allow(&shared, 0o1777);
        for host in &mut self.hosts[1..] {
            let own = std::mem::replace(&mut host.run_dir, shared.clone());
            // Its daemon had begun to use it.
            remove(&own);
        }
        self
    }

    /// Sets an `ULSOCK_` variable for all programs under ulsock. By default they use the nic carrier also
    /// where it is not faster.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// Connections are shown at once: for programs that make few calls.
    pub fn eager(self) -> Self {
        self.with("ULSOCK_UPGRADE_AFTER", 1)
    }

    /// The work folder, which the hosts share.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of them.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// A program on a host, under ulsock.
    pub fn program(&self, host: usize, path: impl AsRef<Path>) -> Program {
        let program = self.plain(host, path);
        if kernel_only() {
            return program;
        }
        let host = self.host(host);
        let mut program = program
            .preload(&host.run_dir)
            .env("ULSOCK_CLUSTER", CLUSTER)
            .env("ULSOCK_NIC", placement());
        for (name, value) in host.variables() {
            program = program.env(name, value);
        }
        for (name, value) in self.settings.iter().chain(&extra_settings()) {
            program = program.env(name, value);
        }
        program
    }

    /// One of our own test programs on a host, under ulsock.
    pub fn own(&self, host: usize, name: &str) -> Program {
        self.program(host, built(name))
    }

    /// A program on a host, on plain kernel TCP.
    pub fn plain(&self, host: usize, path: impl AsRef<Path>) -> Program {
        let path = path.as_ref();
        let number = self.programs.replace(self.programs.get() + 1);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let log = self.folder.join(format!("log-{number:03}-{name}"));
        let program = Program::new(path, &log).without_ulsock();
        program.within(&self.host(host).namespace)
    }

    /// Demands that every host's programs used the nic carrier so much, and that nobody complained; for when
    /// all programs have ended.
    pub fn check(&self, nic: Nic) {
        self.check_quiet();
        for host in &self.hosts {
            host.check(nic);
        }
    }

    /// The same, and that so many connections of every host went over it.
    pub fn check_linked(&self, nic: Nic, connections: u64) {
        self.check(nic);
        for host in self.hosts.iter().filter(|_| !kernel_only()) {
            let (report, _) = host.report();
            assert!(
                report.nic >= connections,
                "{connections} connections over the nic, host {}: {report:?}",
                host.number
            );
        }
    }

    /// Demands that no program printed a line of ours.
    pub fn check_quiet(&self) {
        let is_ours = |log: &PathBuf| {
            let name = log.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("nicd")
        };
        for log in self.logs("err").into_iter().filter(|log| !is_ours(log)) {
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let complaint = text.lines().find(|line| line.starts_with("ulsock:"));
            assert_eq!(complaint, None, "in {}", log.display());
        }
    }

    fn logs(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).expect("work folder");
        let paths = entries.flatten().map(|entry| entry.path());
        let mut logs: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .collect();
        logs.sort();
        logs
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for ending in ["out", "err", "report"] {
                self.logs(ending).iter().for_each(|log| print_tail(log));
            }
        }
        let run_dirs = self.hosts.iter().map(|host| host.run_dir.clone());
        let own = [self.run_dir_above(), self.folder.clone()];
        let etcd = self.etcd.take();
        let data = etcd.iter().map(|etcd| etcd.folder().to_owned());
        let paths: Vec<PathBuf> = run_dirs.chain(own).chain(data).collect();
        drop(etcd);
        self.hosts.clear();
        self.above.take();
        paths.iter().for_each(|path| remove(path));
    }
}

impl Host {
    fn new(number: usize, name: &str, folder: &Path) -> Self {
        let report = folder.join(format!("host-{number}.report"));
        File::create(&report).expect("report file");
        // Servers that drop their privileges still append to it.
        allow(&report, 0o666);
        Self {
            number,
            seat: number,
            namespace: Rc::new(Namespace::new().expect("a network namespace")),
            run_dir: Path::new("/dev/shm").join(format!("{name}-{number}")),
            report,
            nicd: RefCell::new(None),
        }
    }

    /// The sum of the reports of its programs, and their number.
    pub fn report(&self) -> (Report, usize) {
        Report::sum(&self.report)
    }

    /// What differs between the environments of two hosts' programs.
    pub fn variables(&self) -> [(&str, &Path); 2] {
        [
            ("ULSOCK_RUN_DIR", &self.run_dir),
            ("ULSOCK_REPORT", &self.report),
        ]
    }

    /// Where its processes find each other.
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// Its network.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn check(&self, nic: Nic) {
        let (report, lines) = self.report();
        let context = format!("{lines} report lines of host {}", self.number);
        if nic == Nic::Any {
            return;
        }
        assert_eq!(lines > 0, !kernel_only(), "{context}");
        if kernel_only() {
            return;
        }
        let wanted = match nic {
            Nic::Most if extra_settings().is_empty() => report.kernel_bytes().max(1),
            _ => 1,
        };
        assert!(
            report.nic > 0 && report.ring_bytes() >= wanted,
            "{nic:?} of the traffic over the nic, {context}: {report:?}"
        );
    }
}

fn remove(path: &Path) {
    if path.exists() {
        fs::remove_dir_all(path).unwrap_or_else(|error| eprintln!("{path:?}: {error}"));
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// `TESTS_NIC=inline` runs every test with engines in the programs.
fn placement() -> String {
    std::env::var("TESTS_NIC").unwrap_or_else(|_| "daemon".to_owned())
}
