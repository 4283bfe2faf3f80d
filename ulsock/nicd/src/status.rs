//! How things are: what `ulsock nicd status` shows.

use std::fs::Metadata;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::broker::Broker;
use super::checksums::Checksums;
use super::connection::Stage;
use super::daemon::Nicd;
use super::door;
use super::engine_thread::EngineView;
use super::source::SourceStatus;
use rendezvous::channel::address::daemon_file;

/// For an answer, and how long that may be.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST_ANSWER: u64 = 16 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub pid: u32,
    pub address: String,
    pub programs: usize,
    /// Programs in containers, and connections whose two ends it has brought together.
    pub guests: usize,
    pub introduced: u64,
    /// Programs with engines of their own.
    pub engines: Vec<EngineStatus>,
    /// Where the peers come from.
    pub source: SourceStatus,
    pub peers: Vec<PeerStatus>,
    pub interfaces: Vec<InterfaceStatus>,
    /// Those of the daemon; the first is that of the interfaces above.
    pub own_engines: Vec<OwnEngineStatus>,
    /// Where names are kept, if not by the daemons themselves.
    pub store: Option<StoreStatus>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StoreStatus {
    pub title: String,
    pub in_touch: bool,
    /// Why not.
    pub why: String,
    /// Names of this host that are there, and of others that are used; and entries that are not.
    pub ours: usize,
    pub theirs: usize,
    pub ignored: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OwnEngineStatus {
    /// Its thread runs.
    pub runs: bool,
    pub connections: usize,
    /// To so many hosts.
    pub links: usize,
    pub frames_sent: u64,
    pub frames_received: u64,
}

/// What is zero or empty is left out on the way: of a thousand hosts most have nothing to tell.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerStatus {
    pub name: String,
    pub address: String,
    /// The two daemons are in touch.
    pub in_touch: bool,
    pub link_up: bool,
    /// There is none, because no connection needs it.
    pub at_rest: bool,
    /// Why there is no link.
    pub why: String,
    pub interface: String,
    /// Smoothed, in microseconds.
    pub round_trip: f64,
    /// Bytes that may be under way, and that are.
    pub window: u64,
    pub in_flight: u64,
    /// Connections by how far they are.
    pub shown: usize,
    pub claimed: usize,
    pub served: usize,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_lost: u64,
}

/// An engine inside a program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct EngineStatus {
    pub pid: u32,
    /// As of interfaces; but `program` instead of `nicd`.
    pub port: String,
    pub checksums_computed_by: String,
    pub checksums_checked_by: String,
    /// Its UDP port.
    pub udp: u16,
    /// Engines of other hosts that it knows.
    pub routes: usize,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct InterfaceStatus {
    pub name: String,
    /// Its port is open.
    pub open: bool,
    /// Which of `--port` it is.
    pub port: String,
    /// `[W6]` UDP checksums: `interface`, `nicd`, or `nobody`.
    pub checksums_computed_by: String,
    pub checksums_checked_by: String,
    pub trouble: String,
    pub frames_sent: u64,
    pub frames_received: u64,
    pub strangers: u64,
    pub hostile: u64,
    pub polls: u64,
    pub looks: u64,
    pub wakes: u64,
}

/// Asks the daemon of this network namespace.
pub fn ask(run_dir: &Path) -> io::Result<Status> {
    let name = format!("{}{}", &*daemon_file(door::namespace()?)?, door::STATUS);
    ask_at(&run_dir.join(name))
}

fn ask_at(door: &Path) -> io::Result<Status> {
    // A stranger's would have us wait, or read without end.
    if !rendezvous::rundir::may_be_daemon(door.symlink_metadata()?.uid(), run_dir_of(door)?.uid()) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let stream = UnixStream::connect(door)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut text = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

fn run_dir_of(door: &Path) -> io::Result<Metadata> {
    door.parent().ok_or(ErrorKind::NotFound)?.symlink_metadata()
}

impl Nicd {
    pub(super) fn status(&self) -> String {
        let counts = self.counts();
        let status = Status {
            pid: std::process::id(),
            address: self.me.control.to_string(),
            programs: self.programs.len(),
            guests: self.broker.as_ref().map_or(0, Broker::guests),
            introduced: self.broker.as_ref().map_or(0, |broker| broker.found),
            engines: self.engines(),
            source: self.roster.status(self.peers.len()),
            peers: self
                .others()
                .into_iter()
                .map(|host| self.peer(host, counts[host]))
                .collect(),
            interfaces: self.interfaces.iter().map(interface_status).collect(),
            own_engines: self.own_engines(),
            store: self.store_status(),
        };
        brief(&status)
    }

    fn engines(&self) -> Vec<EngineStatus> {
        let programs = self.programs.values();
        let engines = programs.filter_map(|program| {
            let lease = program.lease.as_ref()?;
            let kind = lease.kind.port();
            let checksums = Checksums::of_engine(&self.interfaces[lease.interface], kind);
            Some(EngineStatus {
                pid: program.pair.peer().pid,
                port: kind.name().to_owned(),
                checksums_computed_by: checksums.computed_by.to_owned(),
                checksums_checked_by: checksums.checked_by.to_owned(),
                udp: lease.udp,
                routes: lease.routes.len(),
            })
        });
        engines.collect()
    }

    fn own_engines(&self) -> Vec<OwnEngineStatus> {
        let counters = self.interfaces.iter().map(|it| it.engine.counters());
        let (sent, received) = counters.fold((0, 0), |(sent, received), it| {
            (sent + it.frames_sent, received + it.frames_received)
        });
        let first = OwnEngineStatus {
            runs: true,
            connections: self.interfaces.iter().map(|it| it.ropes.count()).sum(),
            links: self.hosts.iter().filter(|host| host.up).count(),
            frames_sent: sent,
            frames_received: received,
        };
        let others = self.engines.views();
        let others = others.map(|view| view.map(OwnEngineStatus::from).unwrap_or_default());
        std::iter::once(first).chain(others).collect()
    }

    /// Of each host's connections, by how far they are: shown, claimed and served.
    fn counts(&self) -> Vec<[usize; 3]> {
        let mut counts = vec![[0; 3]; self.hosts.len()];
        for (_, connection) in self.connections.iter() {
            let stage = match connection.stage {
                Stage::Shown => 0,
                Stage::Claimed | Stage::Proposed { .. } | Stage::Asked { .. } => 1,
                Stage::Served(_) | Stage::Inline => 2,
                Stage::Over => continue,
            };
            counts[connection.host][stage] += 1;
        }
        counts
    }

    fn peer(&self, number: usize, [shown, claimed, served]: [usize; 3]) -> PeerStatus {
        let host = &self.hosts[number];
        let peer = host.peer.as_ref();
        let interface = host.route.map(|route| &self.interfaces[route.interface]);
        let link = host
            .route
            .and_then(|route| self.interfaces[route.interface].engine.link(route.peer));
        let counters = link.map(|link| link.counters()).unwrap_or_default();
        let path = link.and_then(|link| link.path(0));
        let rtt = path
            .as_ref()
            .filter(|path| path.rtt.is_known())
            .map(|path| path.rtt.smoothed());
        PeerStatus {
            name: peer.and_then(|peer| peer.name.clone()).unwrap_or_default(),
            address: peer
                .map(|peer| peer.control.to_string())
                .unwrap_or_default(),
            in_touch: host.is_in_touch(),
            link_up: host.up,
            at_rest: host.at_rest,
            why: host.unfit.clone().unwrap_or_default(),
            interface: interface
                .map(|interface| interface.name.clone())
                .unwrap_or_default(),
            round_trip: rtt.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e6),
            window: path.as_ref().map_or(0, |path| path.window),
            in_flight: path.as_ref().map_or(0, |path| path.in_flight),
            shown,
            claimed,
            served,
            packets_sent: counters.packets_sent,
            packets_received: counters.packets_received,
            packets_lost: counters.packets_lost,
        }
    }
}

fn brief(status: &Status) -> String {
    let Ok(mut all) = serde_json::to_value(status) else {
        return String::new();
    };
    let peers = all.get_mut("peers").and_then(Value::as_array_mut);
    for peer in peers.into_iter().flatten().filter_map(Value::as_object_mut) {
        peer.retain(|_, value| match value {
            Value::Bool(it) => *it,
            Value::Number(it) => it.as_f64() != Some(0.0),
            Value::String(it) => !it.is_empty(),
            _ => true,
        });
    }
    all.to_string()
}

impl From<EngineView> for OwnEngineStatus {
    fn from(view: EngineView) -> OwnEngineStatus {
        OwnEngineStatus {
            runs: true,
            connections: view.connections,
            links: view.links,
            frames_sent: view.frames_sent,
            frames_received: view.frames_received,
        }
    }
}

fn interface_status(interface: &super::interface::Interface) -> InterfaceStatus {
    let counters = interface.engine.counters();
    let checksums = Checksums::of(interface);
    InterfaceStatus {
        name: interface.name.clone(),
        open: interface.is_open(),
        port: interface.kind().name().to_owned(),
        checksums_computed_by: checksums.computed_by.to_owned(),
        checksums_checked_by: checksums.checked_by.to_owned(),
        trouble: interface
            .trouble
            .map(|it| format!("{it:?}"))
            .unwrap_or_default(),
        frames_sent: counters.frames_sent,
        frames_received: counters.frames_received,
        strangers: counters.strangers,
        hostile: counters.hostile,
        polls: counters.polls,
        looks: counters.looks,
        wakes: counters.wakes,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixListener;

    use super::*;
    use rendezvous::rundir::scratch::Scratch;

    /// Needs root.
    #[test]
    fn a_stranger_is_not_asked() {
        let dir = Scratch::new();
        let door = dir.path.join("nicd.7.status");
        let listener = UnixListener::bind(&door).unwrap();
        chown(&door, Some(1002), None).unwrap();
        assert_eq!(
            ask_at(&door).unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody has come");
    }

    #[test]
    fn an_answer_without_end_is_none() {
        let dir = Scratch::new();
        let door = dir.path.join("nicd.7.status");
        let listener = UnixListener::bind(&door).unwrap();
        let talker = std::thread::spawn(move || {
            let (mut asker, _) = listener.accept().unwrap();
            while asker.write(&[b' '; 1 << 16]).is_ok() {}
        });
        assert!(ask_at(&door).is_err());
        talker.join().unwrap();
    }
}
