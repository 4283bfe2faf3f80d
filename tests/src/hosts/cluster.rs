//! Hosts that learn of each other from what a cluster keeps such things in; and an etcd cluster of several members, each on a
//! host of its own.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;

use super::{Hosts, wires};
use crate::netns::Namespace;
use crate::program::{Program, Running};
use crate::wait;

/// The ports of an etcd member, for clients and for the others.
const CLIENTS: u16 = 2379;
const MEMBERS: u16 = 2380;

/// What a daemon says of where its peers come from.
#[derive(Debug, Default, Deserialize)]
pub struct SourceStatus {
    pub title: String,
    pub in_touch: bool,
    pub age: f64,
    pub why: String,
    pub cure: String,
    pub used: usize,
    pub refused: usize,
    pub shown: Vec<String>,
}

impl Hosts {
    /// So many hosts on a bridge, each with a key, and without a daemon.
    pub fn unacquainted(count: usize) -> Self {
        let mut hosts = Self::unwired(count);
        hosts.switch = Some(Rc::new(Namespace::new().expect("a network namespace")));
        wires::bridge(&hosts);
        for host in 0..count {
            hosts.public_key(host);
        }
        hosts
    }

    /// Of that host; it is made if there is none.
    pub fn public_key(&self, host: usize) -> String {
        let key = self.command(host, "key --key").arg(self.key(host)).run();
        key.trim().to_owned()
    }

    /// `ulsock nicd` with such words, as that host.
    pub fn nicd(&self, host: usize, words: &str, source: &str) -> Program {
        let nicd = self.command(host, words).arg("--key").arg(self.key(host));
        nicd.arg("--peers").arg(source)
    }

    /// Starts a host's daemon with peers from there.
    pub fn start_nicd_from(&self, host: usize, source: &str, words: &str) {
        let nicd = self.nicd(host, "", source).args(words);
        let nicd = nicd.arg("--peers-state").arg(self.state_file(host));
        let mut nicd = nicd.start();
        nicd.until("it listens", |nicd| nicd.errors().contains("listening at"));
        let before = self.host(host).nicd.replace(Some(nicd));
        assert!(before.is_none(), "host {host} has a daemon");
    }

    /// Where its daemon keeps the last good peers.
    pub fn state_file(&self, host: usize) -> PathBuf {
        self.folder().join(format!("state-{host}/peers"))
    }

    /// What a host's daemon says of where its peers come from.
    pub fn source_status(&self, host: usize) -> SourceStatus {
        self.whole_status(host).source
    }

    /// Waits until the daemons of these hosts have contact with so many others each, and know no more.
    pub fn wait_until_acquainted(&self, hosts: &[usize], others: usize) {
        let what = format!("the daemons of {hosts:?} have {others} peers each");
        wait::until(&what, || {
            hosts.iter().all(|host| {
                let peers = self.whole_status(*host).peers;
                peers.len() == others && peers.iter().all(|peer| peer.in_touch)
            })
        });
    }
}

/// An etcd cluster.
pub struct Members<'h> {
    hosts: &'h Hosts,
    folder: PathBuf,
    /// It asks for certificates.
    guarded: bool,
    servers: RefCell<Vec<Option<Running>>>,
}

impl<'h> Members<'h> {
    /// On the first so many hosts. `guarded`: only who has a certificate is served; by a single member.
    pub fn start(hosts: &'h Hosts, count: usize, guarded: bool) -> Self {
        let name = hosts.folder().file_name().unwrap_or_default();
        let folder = Path::new("/dev/shm").join(name).with_extension("members");
        fs::create_dir_all(&folder).expect("a folder for etcd");
        if guarded {
            hosts.certify(&folder, &hosts.host(0).address());
        }
        let servers = (0..count).map(|_| None).collect();
        let members = Members {
            hosts,
            folder,
            guarded,
            servers: RefCell::new(servers),
        };
        (0..count).for_each(|member| members.launch(member));
        (0..count).for_each(|member| members.wait_for(member));
        members
    }

    fn count(&self) -> usize {
        self.servers.borrow().len()
    }

    fn url(&self, member: usize, port: u16) -> String {
        let scheme = if self.guarded && port == CLIENTS {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}:{port}", self.hosts.host(member).address())
    }

    /// As `--peers` has it.
    pub fn source(&self) -> String {
        let member = |it| format!("{}:{CLIENTS}", self.hosts.host(it).address());
        let members = (0..self.count()).map(member).collect::<Vec<_>>();
        let scheme = if self.guarded { "etcds" } else { "etcd" };
        format!("{scheme}://{}", members.join(","))
    }

    /// What proves to it who a host is.
    pub fn words(&self) -> String {
        let folder = self.folder.display();
        format!(
            "--etcd-ca {folder}/ca.pem --etcd-cert {folder}/host.pem --etcd-key {folder}/host.key"
        )
    }

    /// Starts one, with what it knew before.
    pub fn launch(&self, member: usize) {
        let all = (0..self.count()).map(|it| format!("m{it}={}", self.url(it, MEMBERS)));
        let all = all.collect::<Vec<_>>().join(",");
        let (clients, peers) = (self.url(member, CLIENTS), self.url(member, MEMBERS));
        let server = self.hosts.plain(member, "etcd");
        let server = server.args(&format!(
            "--name m{member} --listen-client-urls {clients} --advertise-client-urls {clients}
             --listen-peer-urls {peers} --initial-advertise-peer-urls {peers}
             --initial-cluster {all} --data-dir"
        ));
        let mut server = server.arg(self.folder.join(member.to_string()));
        if self.guarded {
            server = server
                .args("--client-cert-auth --trusted-ca-file")
                .arg(self.folder.join("ca.pem"));
            server = server
                .arg("--cert-file")
                .arg(self.folder.join("server.pem"));
            server = server.arg("--key-file").arg(self.folder.join("server.key"));
        }
        let server = server.start();
        let before = self.servers.borrow_mut()[member].replace(server);
        assert!(before.is_none(), "member {member} runs already");
    }

    /// Waits until it serves.
    pub fn wait_for(&self, member: usize) {
        let mut servers = self.servers.borrow_mut();
        let server = servers[member].as_mut().expect("a member");
        server.until("it serves", |server| {
            server.errors().contains("client requests on ")
        });
    }

    /// As nobody can prevent.
    pub fn kill(&self, member: usize) {
        let server = self.servers.borrow_mut()[member].take();
        server.expect("a member").stop(libc::SIGKILL);
    }

    /// Runs etcdctl, with one that lives.
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        let living = self.servers.borrow().iter().position(Option::is_some);
        let living = living.expect("a member");
        let mut program = self.hosts.plain(living, "etcdctl").env("ETCDCTL_API", "3");
        program = program.arg("--endpoints").arg(self.url(living, CLIENTS));
        if self.guarded {
            program = program.arg("--cacert").arg(self.folder.join("ca.pem"));
            program = program.arg("--cert").arg(self.folder.join("host.pem"));
            program = program.arg("--key").arg(self.folder.join("host.key"));
        }
        for argument in arguments {
            program = program.arg(argument);
        }
        program.run()
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        self.servers.borrow_mut().clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
