//! Two hosts in one process: each has a run directory of its own, and a thread that does what the daemons do with names. Members of
//! different hosts believe that they cannot share memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rendezvous::names::{Change, Directory, Elsewhere, Interest, Label, Users, Watch};
use rendezvous::rundir::RunDir;
use rustix::event::{PollFd, PollFlags, poll};
use ulsock_native::group::{Group, Options};
use ulsock_native::names::Names;

use super::common::begin;

/// The names that a host sees, and those of the other one.
struct Host {
    names: Names,
    directory: Directory,
}

/// By which address a member of this number is reached from the other host.
type Road = Arc<dyn Fn(u32, SocketAddr) -> SocketAddr + Send + Sync>;

static ROADS: Mutex<Option<HashMap<String, Road>>> = Mutex::new(None);

/// Members of this group reach those of the other host by what this gives.
pub fn build_road(
    service: &str,
    road: impl Fn(u32, SocketAddr) -> SocketAddr + Send + Sync + 'static,
) {
    let mut roads = ROADS.lock().expect("roads");
    let roads = roads.get_or_insert_default();
    roads.insert(service.to_owned(), Arc::new(road));
}

fn road(label: &Label, to: SocketAddr) -> SocketAddr {
    let roads = ROADS.lock().expect("roads");
    let road = roads
        .as_ref()
        .and_then(|roads| roads.get(label.service.as_str()))
        .cloned();
    drop(roads);
    road.map_or(to, |road| road(label.instance, to))
}

/// Made before any thread of a test could look at the environment.
pub fn prepare() {
    hosts();
}

fn hosts() -> &'static [Host; 2] {
    static HOSTS: OnceLock<[Host; 2]> = OnceLock::new();
    HOSTS.get_or_init(|| {
        begin();
        let first = std::env::var_os("ULSOCK_RUN_DIR").expect("a run directory");
        let second = tempfile::tempdir().expect("a folder").keep().join("run");
        let host = |dir: &std::ffi::OsStr| {
            // SAFETY: every test comes by here before it starts threads.
            unsafe { std::env::set_var("ULSOCK_RUN_DIR", dir) };
            let run_dir = RunDir::open(dir.as_ref()).expect("a run directory");
            Host {
                names: Names::open().expect("names"),
                directory: Directory::open(run_dir, Users::Trusted).expect("names"),
            }
        };
        let second = host(second.as_os_str());
        let hosts = [host(&first), second];
        for (from, to) in [(0, 1), (1, 0)] {
            let [from_dir, to_dir] = [from, to].map(|at: usize| hosts[at].directory.clone());
            thread::spawn(move || tell(&from_dir, &to_dir, from));
        }
        hosts
    })
}

/// Tells the names of one host to the other.
fn tell(from: &Directory, to: &Directory, host: usize) {
    let interest = Interest {
        service: None,
        instances: 0..=u32::MAX,
    };
    let mut watch = Watch::new(from.clone(), interest).expect("a watch");
    let mut told = HashMap::new();
    loop {
        match watch.next_change().expect("a change") {
            Some(Change::Appeared(record)) if record.label.elsewhere.is_none() => {
                let label = elsewhere(record.label, record.uid, host);
                let address = road(&record.label, record.reached_at());
                let held = to.publish(label, address, record.uid, record.pid);
                told.insert(label, held.expect("a name"));
            }
            Some(Change::Disappeared(record)) => {
                drop(told.remove(&elsewhere(record.label, record.uid, host)));
            }
            Some(Change::Appeared(_)) => {}
            None => drop(poll(&mut [PollFd::new(&watch, PollFlags::IN)], None)),
        }
    }
}

fn elsewhere(label: Label, uid: u32, host: usize) -> Label {
    let host = IpAddr::from(Ipv4Addr::new(192, 0, 2, host as u8));
    Label {
        elsewhere: Some(Elsewhere { host, uid }),
        ..label
    }
}

/// Joins on one of the hosts.
pub fn join_on(host: usize, service: &str, options: Options) -> Group {
    Group::join(&hosts()[host].names, service, options).expect("a group")
}
