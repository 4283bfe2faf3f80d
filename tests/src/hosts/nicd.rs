//! The daemons of the hosts, `ulsock nicd`: their keys and their peers file, their start and their end.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use serde::Deserialize;

use super::{Hosts, SourceStatus};
use crate::ends::kernel_only;
use crate::program::{Program, Running, built};
use crate::wait;

/// What `ulsock nicd status` tells about another host, as far as tests ask.
#[derive(Debug, Deserialize)]
pub struct PeerStatus {
    pub in_touch: bool,
    /// Connections that go by the NIC.
    pub served: u64,
    /// On the link, since it is up.
    pub packets_sent: u64,
    /// Those that had to be replaced.
    pub packets_lost: u64,
}

#[derive(Deserialize)]
struct InterfaceStatus {
    open: bool,
}

/// What it tells about one of its engines.
#[derive(Debug, Deserialize)]
pub struct EngineStatus {
    /// Its thread runs.
    pub runs: bool,
    pub connections: u64,
    /// To so many hosts.
    pub links: u64,
}

/// What it tells about the store of its names.
#[derive(Debug, Deserialize)]
pub struct StoreStatus {
    pub in_touch: bool,
    pub why: String,
    /// Names of its own host, and of others; and how often it has ignored something.
    pub ours: u64,
    pub theirs: u64,
    pub ignored: u64,
}

#[derive(Deserialize)]
pub(super) struct Status {
    store: Option<StoreStatus>,
    pub(super) source: SourceStatus,
    pub(super) peers: Vec<PeerStatus>,
    interfaces: Vec<InterfaceStatus>,
    own_engines: Vec<EngineStatus>,
}

impl Hosts {
    /// Gives every host a key and starts its daemon.
    pub(super) fn with_nicds(self) -> Self {
        if kernel_only() {
            return self;
        }
        let lines = self.hosts.iter().map(|host| {
            let key = self
                .command(host.number, "key --key")
                .arg(self.key(host.number));
            let (v4, v6) = (host.address(), host.address6());
            let own = if self.six { &v6 } else { &v4 };
            format!("{own} nets={v4}/32,{v6}/128 keys={}", key.run())
        });
        let lines: Vec<String> = lines.collect();
        fs::write(self.peers(), lines.concat()).expect("peers file");
        for (host, line) in lines.iter().enumerate() {
            fs::write(self.peers_of_one(host), line).expect("peers file");
        }
        (0..self.count()).for_each(|host| self.start_nicd(host));
        match self.etcd {
            Some(_) => self.wait_for_etcd(),
            None => (0..self.count()).for_each(|host| self.wait_for_links(host)),
        }
        self
    }

    /// Starts a host's daemon, which can be asked from then on.
    pub fn start_nicd(&self, host: usize) {
        let nicd = self.command(host, "--key").arg(self.key(host));
        let peers = match self.etcd {
            Some(_) => self.peers_of_one(host),
            None => self.peers(),
        };
        let nicd = nicd.arg("--peers").arg(peers);
        let nicd = nicd.args("--port").arg(nicd_port());
        let mut nicd = self.with_etcd(host, nicd);
        if !self.trusted.is_empty() {
            nicd = nicd.arg("--lease-to").arg(self.trusted);
        }
        let engines = self.engines.get(host).or(self.engines.last());
        if let Some(engines) = engines.filter(|engines| **engines > 1) {
            nicd = nicd.arg("--engines").arg(engines.to_string());
        }
        if let Some(words) = &self.impairment {
            // Each has bad luck of its own.
            let words = format!("{words},seed={}", host + 1);
            nicd = nicd.arg("--impair").arg(words);
        }
        let mut nicd = nicd.start();
        nicd.until("it listens", |nicd| nicd.errors().contains("listening at"));
        let before = self.host(host).nicd.replace(Some(nicd));
        assert!(before.is_none(), "host {host} has a daemon");
    }

    /// Kills it, as nobody can prevent.
    pub fn kill_nicd(&self, host: usize) {
        self.end_nicd(host, libc::SIGKILL);
    }

    /// Asks it to end.
    pub fn stop_nicd(&self, host: usize) {
        self.end_nicd(host, libc::SIGTERM);
    }

    fn end_nicd(&self, host: usize, signal: i32) {
        if let Some(nicd) = self.host(host).nicd.take() {
            nicd.stop(signal);
        }
    }

    /// Lets it stand still, or go on.
    pub fn signal_nicd(&self, host: usize, signal: i32) {
        if let Some(nicd) = &*self.host(host).nicd.borrow() {
            nicd.signal(signal);
        }
    }

    /// What a host's daemon says about the first of the others.
    pub fn nicd_status(&self, host: usize) -> PeerStatus {
        let first = self.whole_status(host).peers.into_iter().next();
        first.expect("another host")
    }

    /// What it says about its engines.
    pub fn engines(&self, host: usize) -> Vec<EngineStatus> {
        self.whole_status(host).own_engines
    }

    /// Waits until all daemons have links by so many engines.
    pub fn wait_for_engines(&self, count: usize) {
        if kernel_only() {
            return;
        }
        let has_link = |it: &EngineStatus| it.links > 0;
        wait::until("links by all engines", || {
            (0..self.count())
                .all(|host| self.engines(host).iter().filter(|it| has_link(it)).count() == count)
        });
    }

    /// What it says about the store of its names.
    pub fn store_status(&self, host: usize) -> StoreStatus {
        self.whole_status(host).store.expect("a store")
    }

    pub(super) fn whole_status(&self, host: usize) -> Status {
        let text = self.command(host, "status --json").run();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Whether a host's daemon has its port open. What it says is true: for a packet socket the kernel is asked.
    pub fn has_port(&self, host: usize) -> bool {
        let sockets = || {
            let list = self.plain(host, "cat").arg("/proc/net/packet").run();
            list.lines().count() - 1
        };
        let before = sockets();
        let interfaces = self.whole_status(host).interfaces;
        let open = interfaces.iter().any(|interface| interface.open);
        if nicd_port() == "packet" && sockets() == before {
            assert!(open == (before > 0), "it says {open}, and has {before}");
        }
        open
    }

    /// Waits until no daemon has a port.
    pub fn wait_for_rest(&self) {
        wait::until("no port is open", || {
            (0..self.count()).all(|host| !self.has_port(host))
        });
    }

    /// Waits until both daemons serve so many connections.
    pub fn wait_until_served(&self, connections: u64) {
        if kernel_only() {
            return;
        }
        // A promotion that fails is tried again within ten seconds.
        wait::until(
            &format!("{connections} connections are on the link"),
            || (0..self.count()).all(|host| self.nicd_status(host).served == connections),
        );
    }

    /// Waits until a host's daemon serves no connection any more: all have gone back to the kernel.
    pub fn wait_until_left(&self, host: usize) {
        if !kernel_only() {
            wait::until("nobody is on the link", || {
                self.nicd_status(host).served == 0
            });
        }
    }

    /// All that a host's daemon has said; nothing if there is none.
    pub fn nicd_says(&self, host: usize) -> String {
        let nicd = self.host(host).nicd.borrow();
        nicd.as_ref().map_or_else(String::new, Running::errors)
    }

    /// Waits until a host's daemon has links to all others.
    pub fn wait_for_links(&self, host: usize) {
        let mut nicd = self.host(host).nicd.borrow_mut();
        if let Some(nicd) = nicd.as_mut() {
            nicd.until("it has links to all others", |nicd| {
                let text = nicd.errors();
                let up = text.lines().filter(|line| line.contains(": link up on"));
                up.count() + 1 >= self.count()
            });
        }
    }

    /// `ulsock nicd` on a host, with a log of its own.
    pub(super) fn command(&self, host: usize, words: &str) -> Program {
        let number = self.programs.replace(self.programs.get() + 1);
        let log = self.folder.join(format!("nicd-{number:03}-{host}"));
        let there = self.host(host);
        let program = Program::new(built("ulsock"), &log).without_ulsock();
        program
            .env("ULSOCK_RUN_DIR", &there.run_dir)
            .within(&Rc::clone(&there.namespace))
            .args("nicd")
            .args(words)
    }

    pub(super) fn key(&self, host: usize) -> PathBuf {
        self.folder.join(format!("key-{host}"))
    }

    pub(super) fn peers(&self) -> PathBuf {
        self.folder.join("peers")
    }

    /// With the line of that host alone.
    fn peers_of_one(&self, host: usize) -> PathBuf {
        self.folder.join(format!("peers-{host}"))
    }
}

/// `TESTS_PORT=xdp` runs every test over AF_XDP.
fn nicd_port() -> String {
    std::env::var("TESTS_PORT").unwrap_or_else(|_| "packet".to_owned())
}
