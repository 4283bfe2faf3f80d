//! `ulsock nicd`: runs the daemon of this host until a signal ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use ::nicd::caps::{self, User};
use ::nicd::identity::{Identity, KEY_FILE};
use ::nicd::store::Store;
use ::nicd::{self, Impairment, Nicd, PortKind};
use clap::{Args, ValueEnum};
use netstack::phy::ivshmem;
use rendezvous::config::Config;

#[cfg(feature = "etcd")]
use super::etcd::EtcdOptions;
use super::peers::{PeersOptions, STATE_FILE};
use super::place::Place;
use crate::failure::{Failure, Outcome};
use crate::metrics;
use crate::preload;

#[derive(Args)]
pub struct ServeOptions {
    #[command(flatten)]
    peers: PeersOptions,
    /// Where the last good answer of a source of --peers is kept, for when it is away
    #[arg(long, value_name = "FILE", default_value = STATE_FILE)]
    peers_state: PathBuf,
    /// The private key of this host
    #[arg(long, value_name = "FILE", default_value = KEY_FILE)]
    key: PathBuf,
    /// How frames get to the network
    #[arg(long, value_enum, default_value = "packet")]
    port: Port,
    /// The device of --port ivshmem
    #[arg(long, value_name = "FILE", default_value = ivshmem::DEVICE)]
    device: PathBuf,
    /// Users whose programs get a queue of the NIC for an engine of their own (ULSOCK_NIC=inline): they can send any
    /// frame. Those of all other users get UDP sockets
    #[arg(long, value_name = "USER,...", value_delimiter = ',')]
    lease_to: Vec<String>,
    /// Go on as this user, with no more rights than the NIC needs
    #[arg(long)]
    user: Option<String>,
    /// Engines: the first in the daemon's own thread, each other on one of its own; with --port packet
    #[arg(long, value_name = "N", default_value_t = 1)]
    engines: usize,
    /// Serve http://ADDRESS/metrics to Prometheus, as `ulsock metrics` does
    ///
    /// Whoever can connect there can read the names of the programs and how much they carry. With --user, only what
    /// that user may see is counted of the programs. As the service ulsock-nicd, which has only the rights that the NIC
    /// needs, the daemon can read no other users' programs: the page then has the links and hardly any programs; for
    /// these run `ulsock metrics` as root.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: EtcdOptions,
    /// For tests: treat what arrives as a bad network would
    ///
    /// Comma separated: loss=, duplication=, reordering= (such frames come 0.5 ms late) and corruption= (one bit
    /// is turned over), each 0% to 100%, with 0% for what is not named; and seed=, a number, which decides
    /// which frames it strikes (1 if not named). For example:
    /// loss=1%,duplication=1%,reordering=1%,corruption=0.5%,seed=7
    #[arg(long, value_name = "WORDS")]
    impair: Option<Impairment>,
}

impl ServeOptions {
    /// Where names are kept beside the run directory.
    #[cfg(feature = "etcd")]
    fn store(&self) -> Result<Option<Box<dyn Store>>, Failure> {
        self.etcd.store(self.peers.access())
    }

    #[cfg(not(feature = "etcd"))]
    fn store(&self) -> Result<Option<Box<dyn Store>>, Failure> {
        Ok(None)
    }
}

impl ServeOptions {
    /// Who names a certificate or a user means etcd.
    fn check_access(&self) -> Result<(), Failure> {
        let is_etcd = matches!(self.peers.place()?, Place::Etcd(..)) || self.has_names_in_etcd();
        match self.peers.access().is_given() && !is_etcd {
            true => Err(Failure::setup(
                "--etcd-ca, --etcd-cert and --etcd-user are for --etcd or --peers etcd://",
            )),
            false => Ok(()),
        }
    }

    #[cfg(feature = "etcd")]
    fn has_names_in_etcd(&self) -> bool {
        self.etcd.is_given()
    }

    #[cfg(not(feature = "etcd"))]
    fn has_names_in_etcd(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Port {
    /// AF_PACKET: works on every interface
    Packet,
    /// AF_XDP: past the kernel's protocols
    Xdp,
    /// UDP sockets of the kernel: works on every network that carries UDP, through routers and tunnels
    Udp,
    /// Between virtual machines of one host: shared memory, by the module ulnic
    Ivshmem,
}

pub fn run(options: &ServeOptions) -> Outcome {
    let config = preload::configuration()?;
    let key = &options.key;
    let user = options.user.as_deref().map(User::find).transpose();
    let user = user.map_err(|why| Failure::setup(format!("--user: {why}")))?;
    let writer = user.map(|user| user.uid);
    let peers = options.peers.peers_from(&options.peers_state, writer)?;
    options.check_access()?;
    let identity =
        Identity::load(key).map_err(|why| Failure::setup(format!("{} {why}", key.display())))?;
    let port = match options.port {
        Port::Packet => PortKind::Packet,
        Port::Xdp => PortKind::Xdp,
        Port::Udp => PortKind::Udp,
        Port::Ivshmem => PortKind::Ivshmem,
    };
    let metrics = options.metrics.map(metrics::Server::bind).transpose()?;
    let started = Nicd::start(nicd::Options {
        run_dir: &config.run_dir,
        peers,
        identity,
        port,
        device: options.device.clone(),
        impairment: options.impair.clone(),
        lease_to: uids(&options.lease_to)?,
        engines: options.engines,
        store: options.store()?,
    });
    let mut nicd = started.map_err(Failure::setup)?;
    settle(user)?;
    if let Some(server) = metrics {
        serve(server, &config)?;
    }
    nicd.run();
    Ok(ExitCode::SUCCESS)
}

/// Beside the daemon.
fn serve(server: metrics::Server, config: &Config) -> Result<(), Failure> {
    let reach = crate::selection::reach(false, config)?;
    let path = config.run_dir.clone();
    let thread = std::thread::Builder::new().name("metrics".to_owned());
    let started = thread.spawn(move || server.serve(reach, &path));
    let started = started.map(drop);
    started.map_err(|why| Failure::setup(format!("cannot start a thread for --metrics: {why}")))
}

/// Of users by name or number.
fn uids(users: &[String]) -> Result<Vec<u32>, Failure> {
    let find = |user: &String| match user.parse() {
        Ok(uid) => Ok(uid),
        Err(_) => User::find(user).map(|user| user.uid),
    };
    let uids = users.iter().map(find).collect::<Result<_, _>>();
    uids.map_err(|why| Failure::setup(format!("--lease-to: {why}")))
}

/// Everything that takes more rights is open.
fn settle(user: Option<User>) -> Result<(), Failure> {
    let missing = caps::settle(user);
    let missing = missing.map_err(|why| Failure::setup(format!("cannot give up rights: {why}")))?;
    if !missing.is_empty() {
        eprintln!("ulsock: {missing}");
    }
    Ok(())
}
