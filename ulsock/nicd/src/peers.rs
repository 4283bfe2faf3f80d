//! The peers file: which addresses of the cluster lie behind which nicd, where that nicd listens, and by
//! which keys it is known. One file for the whole cluster; a host finds its own line in it by its key.
//! `parse` tells all that is wrong at once. An address without an entry is never asked anything.

mod faults;
mod line;

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use rendezvous::config::Cidr;

use super::key::PublicKey;
use super::trusted::{self, Readers, Untrusted};

pub const PEERS_FILE: &str = "/etc/ulsock/peers";

/// Where a nicd listens for the others (TCP), if its line names no port.
pub const CONTROL_PORT: u16 = 4690;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its place in `Peers`.
    pub index: usize,
    /// Its line in the file, from 1 on.
    pub line: usize,
    pub name: Option<String>,
    /// Where its nicd listens, and from where it calls.
    pub control: SocketAddr,
    /// The addresses whose connections its nicd serves.
    pub nets: Vec<Cidr>,
    /// Any of them is good: while a key is changed there are two.
    pub keys: Vec<PublicKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    list: Vec<Peer>,
    /// All blocks with their peers, by address. They do not overlap.
    nets: Vec<(Cidr, usize)>,
}

/// One thing that is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub line: usize,
    /// Of what it does not fit to, if it is not wrong by itself.
    pub other: Option<usize>,
    pub reason: String,
}

/// Why a peers file cannot be used.
#[derive(Debug)]
pub enum BadPeers {
    Untrusted(Untrusted),
    Faults(Vec<Fault>),
}

/// Why a host does not find itself in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum NotListed {
    /// Its address is there, its key is not.
    Key {
        line: usize,
        control: IpAddr,
    },
    /// Its key stands at an address that it does not have.
    Address {
        line: usize,
        control: IpAddr,
    },
    Neither,
}

impl Peers {
    pub fn load(path: &Path) -> Result<Peers, BadPeers> {
        let text = trusted::read(path, Readers::All).map_err(BadPeers::Untrusted)?;
        Peers::parse(&text).map_err(BadPeers::Faults)
    }

    pub fn parse(text: &str) -> Result<Peers, Vec<Fault>> {
        let mut list: Vec<Peer> = Vec::new();
        let mut faults = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            match line::parse(text) {
                Ok(None) => {}
                Ok(Some(mut peer)) => {
                    peer.line = line;
                    peer.index = list.len();
                    list.push(peer);
                }
                Err(reasons) => faults.extend(reasons.into_iter().map(|reason| Fault {
                    line,
                    other: None,
                    reason,
                })),
            }
        }
        let nets = faults::sorted_nets(&list);
        faults.extend(faults::between(&list, &nets));
        faults.sort();
        match faults.is_empty() {
            true => Ok(Peers { list, nets }),
            false => Err(faults),
        }
    }

    /// Whose nicd serves this address.
    pub fn behind(&self, ip: IpAddr) -> Option<usize> {
        let ip = ip.to_canonical();
        let next = self.nets.partition_point(|(net, _)| net.base() <= ip);
        let (net, peer) = self.nets.get(next.checked_sub(1)?)?;
        net.contains(ip).then_some(*peer)
    }

    /// Whose nicd calls from this address.
    pub fn at(&self, ip: IpAddr) -> Option<usize> {
        let ip = ip.to_canonical();
        self.list.iter().position(|peer| peer.control.ip() == ip)
    }

    pub fn with_key(&self, key: &PublicKey) -> Option<usize> {
        self.list.iter().position(|peer| peer.keys.contains(key))
    }

    /// This host's own place, by its key; its addresses must fit, since it calls from there.
    pub fn own(
        &self,
        key: &PublicKey,
        is_here: impl Fn(IpAddr) -> bool,
    ) -> Result<usize, NotListed> {
        let of = |peer: &Peer| (peer.line, peer.control.ip());
        if let Some(own) = self.with_key(key) {
            let (line, control) = of(&self.list[own]);
            return match is_here(control) {
                true => Ok(own),
                false => Err(NotListed::Address { line, control }),
            };
        }
        match self.list.iter().find(|peer| is_here(peer.control.ip())) {
            Some(peer) => Err(NotListed::Key {
                line: peer.line,
                control: peer.control.ip(),
            }),
            None => Err(NotListed::Neither),
        }
    }

    pub fn get(&self, index: usize) -> Option<&Peer> {
        self.list.get(index)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Peer> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Whether this host has the address.
pub fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// As a line of the file.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} nets={} keys={}",
            self.control,
            list(&self.nets),
            list(&self.keys)
        )?;
        match &self.name {
            Some(name) => write!(f, " name={name}"),
            None => Ok(()),
        }
    }
}

fn list(items: &[impl fmt::Display]) -> String {
    items
        .iter()
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// One line of text for each fault.
impl fmt::Display for BadPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPeers::Untrusted(why) => why.fmt(f),
            BadPeers::Faults(faults) => {
                let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl fmt::Display for NotListed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotListed::Key { line, control } => write!(
                f,
                "line {line} is this host by its address {control}, but does not list its key"
            ),
            NotListed::Address { line, control } => write!(
                f,
                "line {line} lists this host's key, but its address {control} is none of this host's"
            ),
            NotListed::Neither => {
                f.write_str("no line lists this host's key, nor one of its addresses")
            }
        }
    }
}

#[cfg(test)]
mod tests;
