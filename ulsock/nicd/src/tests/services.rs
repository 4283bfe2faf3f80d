//! Names of one host, as they are found on the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rendezvous::names::{Directory, Held, Label, Record, Service, Users};
use rendezvous::rundir::RunDir;
use rustix::process::Signal;

use super::world::{TestHost, World, eventually};

/// What docs/native.md promises.
const TOLD: Duration = Duration::from_secs(1);
const LOST: Duration = Duration::from_secs(3);

fn service() -> Service {
    Service::new("db").expect("a name")
}

/// As a program there sees them.
fn names(host: &TestHost) -> Directory {
    let run_dir = RunDir::open(&host.run_dir).expect("a run directory");
    host.within(|| Directory::open(run_dir, Users::Trusted).expect("names"))
}

fn register(names: &Directory, instance: u32, address: SocketAddr) -> Held {
    let label = Label::here(service(), instance);
    names.register(label, address).expect("to register")
}

fn found(names: &Directory) -> Vec<Record> {
    let mut found = names.range(service(), 0..=u32::MAX).unwrap();
    found.sort_by_key(|record| record.label.instance);
    found
}

fn wait_for(names: &Directory, count: usize, most: Duration) -> Vec<Record> {
    let since = Instant::now();
    let found = eventually("so many names", || {
        Some(found(names)).filter(|found| found.len() == count)
    });
    assert!(since.elapsed() < most, "after {:?}", since.elapsed());
    found
}

#[test]
fn names_are_told_to_the_other_host() {
    let world = World::new("packet");
    let [here, there] = [0, 1].map(|host| names(&world.hosts[host]));
    let own = world.hosts[0].address();
    let any = register(&here, 1, SocketAddr::from(([0; 4], 7001)));
    let _near = register(&here, 2, SocketAddr::from(([127, 0, 0, 1], 7002)));
    let stray = SocketAddr::from((world.hosts[0].other_address(), 7003));
    let _stray = register(&here, 3, stray);
    let _exact = register(&here, 4, SocketAddr::from((own, 7004)));
    let told = wait_for(&there, 2, TOLD);
    let addresses: Vec<SocketAddr> = told.iter().map(|it| it.address).collect();
    let expected = [7001, 7004].map(|port| SocketAddr::from((own, port)));
    assert_eq!(addresses, expected);
    assert_eq!(told[0].pid, std::process::id());
    assert_eq!(told[0].label.host(), Some(own.into()));
    let echoes = found(&here);
    assert!(
        echoes.iter().all(|it| it.label.elsewhere.is_none()),
        "{echoes:?}"
    );
    drop(any);
    assert_eq!(wait_for(&there, 1, TOLD)[0].label.instance, 4);
}

#[test]
fn names_of_a_host_without_a_daemon_go() {
    let mut world = World::new("packet");
    let [here, there] = [0, 1].map(|host| names(&world.hosts[host]));
    let own = world.hosts[0].address();
    let _held = register(&here, 1, SocketAddr::from((own, 7001)));
    wait_for(&there, 1, TOLD);
    world.hosts[0].signal(Signal::KILL);
    world.hosts[0].wait();
    wait_for(&there, 0, LOST);
    let folder = world.folder.path().to_owned();
    world.hosts[0].start(&folder, "packet");
    wait_for(&there, 1, Duration::from_secs(20));
    // With the daemon that has written it down.
    world.hosts[1].signal(Signal::KILL);
    world.hosts[1].wait();
    assert_eq!(found(&there), []);
}

/// Whoever waits for its end does not hear of a daemon that is started anew at once.
#[test]
fn names_outlive_a_new_start_of_the_daemon() {
    let mut world = World::new("packet");
    let [here, there] = [0, 1].map(|host| names(&world.hosts[host]));
    let own = world.hosts[0].address();
    let address = SocketAddr::from((own, 7001));
    // More than are heard at once.
    let _held: Vec<Held> = (0..200).map(|it| register(&here, it, address)).collect();
    let before = wait_for(&there, 200, TOLD);
    world.hosts[0].signal(Signal::KILL);
    world.hosts[0].wait();
    let folder = world.folder.path().to_owned();
    world.hosts[0].start(&folder, "packet");
    let _last = register(&here, 200, address);
    let after = wait_for(&there, 201, Duration::from_secs(20));
    assert_eq!(after[..200], before, "the same registrations");
}
