//! Debian's etcd: three servers of Go 1.19, whose connections among each other stay for their whole life, and gRPC of Go
//! with etcdctl. A server is killed and comes back.

use std::fs;

use tests::ends::{Ends, Side};
use tests::place::Place;
use tests::program::Running;
use tests::{ports, procfs, top};

use super::same_as_kernel_in;
use crate::pattern_file;

const SERVERS: usize = 3;
const KEYS: usize = 12;
const VALUE: usize = 400_000;

/// The ports of one server, for clients and for its peers.
#[derive(Clone, Copy)]
struct Ports {
    clients: u16,
    peers: u16,
}

struct Cluster<'a> {
    place: &'a Place,
    ports: [Ports; SERVERS],
}

impl Cluster<'_> {
    fn new(place: &Place) -> Cluster<'_> {
        let ports = [(); SERVERS].map(|()| Ports {
            clients: ports::free(),
            peers: ports::free(),
        });
        Cluster { place, ports }
    }

    /// The first is the server side here, the others are the client side.
    fn start(&self, index: usize) -> Running {
        let side = if index == 0 {
            Side::Server
        } else {
            Side::Client
        };
        let Ports { clients, peers } = self.ports[index];
        let all: Vec<String> = (0..SERVERS)
            .map(|it| format!("s{it}=http://127.0.0.1:{}", self.ports[it].peers))
            .collect();
        let etcd = self.place.program(side, "etcd").arg("--data-dir");
        let etcd = etcd.arg(self.place.folder().join(format!("etcd-{index}")));
        let etcd = etcd.args(&format!(
            "--name s{index} --listen-client-urls http://127.0.0.1:{clients} \
             --advertise-client-urls http://127.0.0.1:{clients} --listen-peer-urls http://127.0.0.1:{peers} \
             --initial-advertise-peer-urls http://127.0.0.1:{peers} --initial-cluster {} --log-level error",
            all.join(",")
        ));
        etcd.start()
    }

    /// What etcdctl prints, asked at one server. Without a leader that fails.
    fn ask(&self, index: usize, command: &str) -> String {
        let shell = self.place.client("bash").directory(self.place.folder());
        let line = format!(
            "set -o pipefail
             for attempt in {{1..20}}; do
                 etcdctl --command-timeout=20s --dial-timeout=20s --endpoints=127.0.0.1:{} {command} && exit
             done
             exit 1",
            self.ports[index].clients
        );
        shell.env("ETCDCTL_API", "3").arg("-c").arg(line).run()
    }

    /// It answers, with what the others have.
    fn is_there(&self, index: usize) {
        self.ask(index, "get nothing");
    }
}

#[test]
fn a_cluster() {
    same_as_kernel_in(&["default", "the server alone"], scene, Place::check_quiet);
}

fn scene(place: &Place) -> String {
    let cluster = Cluster::new(place);
    let mut servers: Vec<Running> = (0..SERVERS).map(|index| cluster.start(index)).collect();
    for (index, server) in servers.iter_mut().enumerate() {
        let port = cluster.ports[index].clients;
        server.until("it listens", |it| procfs::listens(it.pid(), port));
        cluster.is_there(index);
    }
    pattern_file(&place.folder().join("value"), VALUE);
    let mut text = String::new();
    for key in 0..KEYS {
        text += &cluster.ask(key % SERVERS, &format!("put key{key} < value"));
    }
    // The last one comes back and gets what it has missed.
    servers.pop().expect("a server").stop(libc::SIGKILL);
    for key in 0..KEYS {
        text += &cluster.ask(key % 2, &format!("put late{key} value-{key}"));
    }
    let server = cluster.start(2).listening(cluster.ports[2].clients);
    servers.push(server);
    for index in 0..SERVERS {
        let all = cluster.ask(index, "get --prefix key --print-value-only | cksum");
        let late = cluster.ask(index, "get --prefix late");
        text += &format!("{all}{late}");
    }
    cluster.ask(1, "snapshot save copy >/dev/null 2>&1");
    let copy = fs::metadata(place.folder().join("copy")).expect("a snapshot");
    assert!(copy.len() as usize > KEYS * VALUE);
    if place.ends() == Ends::Both {
        assert_on_rings(place);
    }
    for server in servers {
        server.stop(libc::SIGTERM);
    }
    text
}

/// They end by a signal, and do not report: they are looked at while they run.
fn assert_on_rings(place: &Place) {
    let rows = top::rows(place.run_dir());
    // The streams between servers carry bytes in one direction only.
    let carries = |row: &&top::Row| row.carrier_tx == "shm" || row.carrier_rx == "shm";
    let on_rings = rows.iter().filter(carries).count();
    assert!(on_rings >= SERVERS, "{on_rings} on rings: {rows:#?}");
}
