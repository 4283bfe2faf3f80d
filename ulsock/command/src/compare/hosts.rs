//! Two hosts on this machine: network namespaces with a cable between them, a run directory and a daemon for
//! each. Kernel TCP has a pair of its own, to which nothing of ours is attached.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rendezvous::rundir::RunDir;

use super::contender::Contender;
use super::daemons::{Daemons, Place, ProgramsPort};
use super::guard::Guard;
use super::namespace::Namespace;
use super::usage::End;
use crate::failure::Failure;

/// The server's address; every pair has the same.
pub const SERVER: &str = "10.91.0.1";
const CLIENT: &str = "10.91.0.2";
/// What the library must take for its cluster.
const CLUSTER: &str = "10.91.0.0/24";
/// The device's name on each host.
const DEVICE: &str = "eth0";

pub struct Hosts {
    kernel: Pair,
    ulsock: Pair,
    /// What the run directories lie in.
    folder: PathBuf,
    /// The last to be made, and the first to go.
    daemons: Option<Daemons>,
}

/// A server's host and a client's.
struct Pair {
    server: Namespace,
    client: Namespace,
}

/// Whether hosts can be made here.
pub fn check() -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        let message = "compare --hosts makes network namespaces and needs root for that";
        return Err(Failure::setup(message));
    }
    match super::programs::find("ip") {
        Some(_) => Ok(()),
        None => Err(Failure::setup(
            "compare --hosts needs ip: apt install iproute2",
        )),
    }
}

impl Hosts {
    /// `folder` is where the run directories will be.
    pub fn new(folder: PathBuf, port: ProgramsPort, guard: &Rc<Guard>) -> Result<Hosts, Failure> {
        let pairs = || Ok((Pair::new()?, Pair::new()?));
        let (kernel, ulsock) = pairs().map_err(|error: io::Error| {
            Failure::setup(format!("compare --hosts cannot make two hosts: {error}"))
        })?;
        let mut hosts = Hosts {
            kernel,
            ulsock,
            folder,
            daemons: None,
        };
        // Servers that are not root cannot make them.
        for end in [End::Server, End::Client] {
            let path = hosts.run_dir(end);
            RunDir::open(&path)
                .map_err(|error| Failure::setup(format!("{}: {error}", path.display())))?;
        }
        let place = |end: End, address| Place {
            namespace: hosts.ulsock.host(end),
            address,
            run_dir: hosts.run_dir(end),
        };
        let places = [place(End::Server, SERVER), place(End::Client, CLIENT)];
        let daemons = Daemons::start(&hosts.folder, &places, port, guard)?;
        hosts.daemons = Some(daemons);
        Ok(hosts)
    }

    /// Calls `start` on the host where this end of the contender runs.
    pub fn enter<T>(
        &self,
        contender: Contender,
        end: End,
        start: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let pair = match contender {
            Contender::Ulsock | Contender::UlsockUnix | Contender::Chain | Contender::Messages => {
                &self.ulsock
            }
            _ => &self.kernel,
        };
        pair.host(end).enter(start)
    }

    /// CPU time of the daemons so far.
    pub fn daemons_cpu(&self) -> Duration {
        let daemons = self.daemons.as_ref();
        daemons.map_or(Duration::ZERO, Daemons::cpu)
    }

    /// What tells the library of its host.
    pub fn variables(&self, end: End) -> [(&'static str, OsString); 2] {
        [
            ("ULSOCK_RUN_DIR", self.run_dir(end).into()),
            ("ULSOCK_CLUSTER", CLUSTER.into()),
        ]
    }

    /// Two hosts share no memory.
    fn run_dir(&self, end: End) -> PathBuf {
        self.folder.join(end.name())
    }
}

impl Pair {
    fn new() -> io::Result<Pair> {
        let pair = Pair {
            server: Namespace::new()?,
            client: Namespace::new()?,
        };
        let there = pair.client.path();
        pair.server.ip(&format!(
            "link add {DEVICE} type veth peer name {DEVICE} netns {}",
            there.display()
        ))?;
        for (host, address) in [(&pair.server, SERVER), (&pair.client, CLIENT)] {
            host.ip("link set lo up")?;
            host.ip(&format!("addr add {address}/24 dev {DEVICE}"))?;
            host.ip(&format!("link set {DEVICE} up"))?;
        }
        Ok(pair)
    }

    fn host(&self, end: End) -> &Namespace {
        match end {
            End::Server => &self.server,
            End::Client => &self.client,
        }
    }
}
