//! `ulsock nicd join` and `leave`: announce this host where the cluster keeps its hosts, and take it out again. Where that is
//! etcd they write there; otherwise they print what an administrator has to.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;

use ::nicd::identity::{Identity, KEY_FILE};
use ::nicd::peers::{CONTROL_PORT, Fault, Peers};
use ::nicd::source::Entry;
use clap::Args;

use super::peers::PeersOptions;
use super::place::Place;
#[cfg(feature = "etcd")]
use super::registry;
use crate::failure::{Failure, Outcome};

#[derive(Args)]
pub struct JoinOptions {
    #[command(flatten)]
    pub host: HostOptions,
    /// Where this host's nicd will listen [default: the address that leads to etcd]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    address: Option<String>,
    /// The addresses and blocks that it will serve [default: its own address]
    #[arg(long, value_name = "CIDR,...")]
    nets: Option<String>,
    /// Take the place of an entry that has this name and another key
    #[arg(long)]
    pub replace: bool,
    /// With etcd: stay, and let the entry vanish so long after this command has ended or etcd has lost it
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=86400))]
    pub lease: Option<u64>,
}

#[derive(Args)]
pub struct LeaveOptions {
    #[command(flatten)]
    pub host: HostOptions,
    /// Also if the entry of this name has another key
    #[arg(long)]
    pub replace: bool,
}

#[derive(Args)]
pub struct HostOptions {
    #[command(flatten)]
    pub peers: PeersOptions,
    /// The private key of this host
    #[arg(long, value_name = "FILE", default_value = KEY_FILE)]
    key: PathBuf,
    /// The name of this host there [default: its host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// What there is to announce.
pub struct Own {
    pub name: String,
    /// The public key.
    #[cfg(feature = "etcd")]
    pub key: String,
    /// As of a peers file.
    pub line: String,
    control: SocketAddr,
}

pub fn run(options: &JoinOptions) -> Outcome {
    let place = options.host.peers.place()?;
    let own = options.own(&place)?;
    if options.lease.is_some() && !matches!(place, Place::Etcd(..)) {
        return Err(Failure::setup("--lease is for --peers etcd://"));
    }
    match &place {
        #[cfg(feature = "etcd")]
        Place::Etcd(urls, prefix) => registry::join(options, &own, urls, prefix),
        #[cfg(not(feature = "etcd"))]
        Place::Etcd(..) => Err(super::peers::without("etcd")),
        Place::File(path) => print(&format!(
            "# add this line to {} on every host:\n{}",
            path.display(),
            own.line
        )),
        Place::Kubernetes(_) => print(&format!(
            "kubectl annotate node {} --overwrite ulsock/peer='{}'",
            own.name, own.line
        )),
        Place::Dns(domain, _) => print(&records(&own, domain)),
    }
}

pub fn leave(options: &LeaveOptions) -> Outcome {
    let name = options.host.name()?;
    match options.host.peers.place()? {
        #[cfg(feature = "etcd")]
        Place::Etcd(urls, prefix) => {
            let key = options.host.identity()?.public().to_string();
            registry::leave(options, &name, &key, &urls, &prefix)
        }
        #[cfg(not(feature = "etcd"))]
        Place::Etcd(..) => Err(super::peers::without("etcd")),
        Place::File(path) => print(&format!(
            "# remove the line with this key from {} on every host:\n{}",
            path.display(),
            options.host.identity()?.public()
        )),
        Place::Kubernetes(_) => print(&format!("kubectl annotate node {name} ulsock/peer-")),
        Place::Dns(domain, _) => print(&format!(
            "; remove the records of {name}.{domain}. and the SRV record that leads there"
        )),
    }
}

fn print(text: &str) -> Outcome {
    crate::print::all(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

impl HostOptions {
    fn identity(&self) -> Result<Identity, Failure> {
        let wrong = |why| Failure::setup(format!("{} {why}", self.key.display()));
        Identity::load(&self.key).map_err(wrong)
    }

    fn name(&self) -> Result<String, Failure> {
        let own = rustix::system::uname();
        let own = own.nodename().to_string_lossy();
        let name = self.name.clone().unwrap_or_else(|| own.into_owned());
        let is_name = name
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it));
        match is_name && Entry::new(name.as_bytes(), b"x").line.is_ok() {
            true => Ok(name),
            false => Err(Failure::setup(
                "--name: letters, digits, and any of -_. are wanted",
            )),
        }
    }
}

impl JoinOptions {
    fn own(&self, place: &Place) -> Result<Own, Failure> {
        let name = self.host.name()?;
        let address = match (&self.address, place) {
            (Some(address), _) => address.clone(),
            (None, Place::Etcd(urls, _)) => towards(urls)?.to_string(),
            (None, _) => return Err(Failure::setup("--address ADDRESS is missing")),
        };
        let key = self.host.identity()?.public().to_string();
        let mut line = address;
        if let Some(nets) = &self.nets {
            line.push_str(&format!(" nets={nets}"));
        }
        line.push_str(&format!(" keys={key} name={name}"));
        let reasons = |faults: Vec<Fault>| {
            let reasons: Vec<String> = faults.into_iter().map(|it| it.reason).collect();
            Failure::setup(reasons.join("\nulsock: "))
        };
        let peers = Peers::parse(&line).map_err(reasons)?;
        let control = match (peers.get(0), peers.len()) {
            (Some(peer), 1) => peer.control,
            _ => return Err(Failure::setup("--address and --nets are one line")),
        };
        Ok(Own {
            name,
            #[cfg(feature = "etcd")]
            key,
            line,
            control,
        })
    }
}

/// The address of ours that the kernel would use to get there.
fn towards(urls: &[String]) -> Result<IpAddr, Failure> {
    let unknown = || Failure::setup("no route leads to etcd: name this host's --address");
    let member = urls.first().and_then(|it| it.split_once("://"));
    let mut there = member
        .and_then(|(_, member)| member.to_socket_addrs().ok())
        .ok_or_else(unknown)?;
    let there = there.next().ok_or_else(unknown)?;
    let any: IpAddr = match there {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(there)?;
        socket.local_addr()
    });
    let own = socket.map_err(|_| unknown())?.ip();
    match own.is_loopback() {
        true => Err(Failure::setup(
            "etcd is on this host: name the --address by which others reach it",
        )),
        false => Ok(own),
    }
}

/// For a zone file. A string of a TXT record has 255 bytes at most.
fn records(own: &Own, domain: &str) -> String {
    let words = own.line.split(' ').skip(1);
    let words: Vec<&str> = words.filter(|word| !word.starts_with("name=")).collect();
    let text = format!("ulsock {}", words.join(" "));
    let strings = text.as_bytes().chunks(255);
    let strings = strings.map(|it| format!("\"{}\"", String::from_utf8_lossy(it)));
    let (name, strings) = (&own.name, strings.collect::<Vec<_>>().join(" "));
    let kind = if own.control.is_ipv4() { "A" } else { "AAAA" };
    let (ip, port) = (own.control.ip(), own.control.port());
    let usual = if port == CONTROL_PORT {
        " ; the usual port"
    } else {
        ""
    };
    format!(
        "_ulsock._udp.{domain}. 300 IN SRV 0 0 {port} {name}.{domain}.{usual}\n\
         {name}.{domain}. 300 IN {kind} {ip}\n\
         {name}.{domain}. 300 IN TXT {strings}"
    )
}
