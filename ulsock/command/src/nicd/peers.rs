//! The options that say which hosts there are: `--peers`, and what proves who we are where they are kept.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::nicd::PeersFrom;
use ::nicd::peers::{PEERS_FILE, Peers};
use ::nicd::source::PeerSource;
#[cfg(feature = "kubernetes")]
use ::nicd::trusted::Readers;
use clap::Args;
use dns::DnsPeers;

use super::access::EtcdAccess;
#[cfg(feature = "kubernetes")]
use super::access::read;
use super::check;
#[cfg(feature = "etcd")]
use super::etcd;
use super::place::Place;
use crate::failure::Failure;

/// Where the last good answer of a source is kept.
pub const STATE_FILE: &str = "/var/lib/ulsock/peers";

#[derive(Args)]
pub struct PeersOptions {
    /// Which hosts there are: a file, etcd://HOST:PORT,.../PREFIX/ (etcds:// for TLS), kubernetes:, or dns:DOMAIN
    #[arg(long, value_name = "FILE|SOURCE", default_value = PEERS_FILE)]
    peers: PathBuf,
    /// With dns: believe answers that no resolver of this host has validated: whoever can forge them can let hosts in
    #[arg(long)]
    trust_dns: bool,
    /// With kubernetes: the certificates of the authority that the API server's own comes from [default: that of the pod]
    #[arg(long, value_name = "FILE")]
    kubernetes_ca: Option<PathBuf>,
    /// The token of a service account that may list and watch nodes [default: that of the pod]
    #[arg(long, value_name = "FILE")]
    kubernetes_token: Option<PathBuf>,
    #[command(flatten)]
    access: EtcdAccess,
}

impl PeersOptions {
    pub fn place(&self) -> Result<Place, Failure> {
        let place = Place::parse(&self.peers);
        place.map_err(|why| Failure::setup(format!("--peers {}: {why}", self.peers.display())))
    }

    pub fn path(&self) -> &Path {
        &self.peers
    }

    pub fn access(&self) -> &EtcdAccess {
        &self.access
    }

    /// What the daemon is told.
    pub fn peers_from(&self, state: &Path, writer: Option<u32>) -> Result<PeersFrom, Failure> {
        Ok(match self.source()? {
            Some(source) => PeersFrom::Source {
                source,
                saved: state.to_owned(),
                writer,
            },
            None => {
                Peers::load(&self.peers).map_err(|why| check::refusal(&self.peers, &why))?;
                PeersFrom::File(self.peers.clone())
            }
        })
    }

    /// `None`: it is a file.
    pub fn source(&self) -> Result<Option<Box<dyn PeerSource>>, Failure> {
        match self.place()? {
            Place::File(_) => Ok(None),
            Place::Etcd(urls, prefix) => self.of_etcd(&urls, &prefix).map(Some),
            Place::Kubernetes(server) => self.of_kubernetes(server.as_deref()).map(Some),
            Place::Dns(domain, server) => self.of_dns(&domain, server).map(Some),
        }
    }

    #[cfg(feature = "etcd")]
    fn of_etcd(&self, urls: &[String], prefix: &str) -> Result<Box<dyn PeerSource>, Failure> {
        let settings = etcd::settings(&self.access, urls)?;
        let peers = ::etcd::EtcdPeers::new(&settings, prefix);
        let peers = peers.map_err(|why| Failure::setup(format!("--peers: {why}")))?;
        Ok(Box::new(peers))
    }

    #[cfg(not(feature = "etcd"))]
    fn of_etcd(&self, _: &[String], _: &str) -> Result<Box<dyn PeerSource>, Failure> {
        Err(without("etcd"))
    }

    #[cfg(feature = "kubernetes")]
    fn of_kubernetes(&self, server: Option<&str>) -> Result<Box<dyn PeerSource>, Failure> {
        let wrong = |why| Failure::setup(format!("--peers: {why}"));
        let (ca, token) = ::kubernetes::Settings::usual_files();
        let (host, port) = ::kubernetes::Settings::server(server).map_err(wrong)?;
        let settings = ::kubernetes::Settings {
            host,
            port,
            ca: read(self.kubernetes_ca.as_ref().unwrap_or(&ca), Readers::All)?,
            token: self.kubernetes_token.clone().unwrap_or(token),
        };
        let peers = ::kubernetes::KubernetesPeers::new(&settings);
        Ok(Box::new(peers.map_err(wrong)?))
    }

    #[cfg(not(feature = "kubernetes"))]
    fn of_kubernetes(&self, _: Option<&str>) -> Result<Box<dyn PeerSource>, Failure> {
        Err(without("kubernetes"))
    }

    fn of_dns(
        &self,
        domain: &str,
        server: Option<SocketAddr>,
    ) -> Result<Box<dyn PeerSource>, Failure> {
        let peers = DnsPeers::new(domain, server, self.trust_dns);
        let peers = peers.map_err(|why| Failure::setup(format!("--peers: {why}")))?;
        Ok(Box::new(peers))
    }
}

/// For what this program was built without.
#[cfg(not(all(feature = "etcd", feature = "kubernetes")))]
pub fn without(feature: &str) -> Failure {
    Failure::setup(format!(
        "this ulsock was built without {feature}: build it with --features {feature}"
    ))
}
