//! Which connections are ours to accelerate: by address and by port.

use std::net::{IpAddr, SocketAddr};

use super::Cidr;

#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Empty: loopback and connections whose two ends are the same address.
    cluster: Vec<Cidr>,
    exclude: Vec<Cidr>,
    exclude_ports: Vec<u16>,
    awake: AwakeScope,
}

/// On which connections that kernel TCP carries a wait may be awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AwakeScope {
    Off,
    /// To addresses of private networks and of the cluster: an answer from farther away takes longer than a sleep costs.
    #[default]
    Private,
    All,
}

/// Where the other end of a connection on this host can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In our network namespace.
    Namespace,
    /// In any: these addresses mean the same everywhere, or the operator's `ULSOCK_CLUSTER` is wrong.
    Host,
}

impl Reach {
    /// By addresses alone, so that both ends come to the same.
    pub fn of(local: SocketAddr, peer: SocketAddr) -> Reach {
        let (local, peer) = (local.ip().to_canonical(), peer.ip().to_canonical());
        let is_own = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.is_loopback(),
            // Link-local ones mean something on their link only.
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        };
        if local == peer || is_own(local) || is_own(peer) {
            Reach::Namespace
        } else {
            Reach::Host
        }
    }
}

/// Why a connection is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfScope {
    Address,
    Excluded,
}

impl Scope {
    pub(super) fn set_cluster(&mut self, text: &str) -> Result<(), &'static str> {
        let blocks: Option<Vec<_>> = items(text).map(Cidr::parse).collect();
        self.cluster = blocks.ok_or("address blocks such as 10.0.0.0/8,fd00::/8")?;
        Ok(())
    }

    /// In place of what was set before.
    pub(super) fn set_exclude(&mut self, text: &str) -> Result<(), &'static str> {
        self.exclude.clear();
        self.exclude_ports.clear();
        for item in items(text) {
            if let Ok(port) = item.parse::<u16>() {
                self.exclude_ports.push(port);
            } else if let Some(block) = Cidr::parse(item) {
                self.exclude.push(block);
            } else {
                return Err("ports and address blocks such as 22,10.0.0.0/8");
            }
        }
        Ok(())
    }

    pub(super) fn set_awake(&mut self, text: &str) -> Result<(), &'static str> {
        self.awake = match text {
            "off" => AwakeScope::Off,
            "private" => AwakeScope::Private,
            "all" => AwakeScope::All,
            _ => return Err("off, private or all"),
        };
        Ok(())
    }

    pub fn awake(&self) -> AwakeScope {
        self.awake
    }

    /// Must the local port be known to say whether a connection is excluded?
    pub fn excludes_ports(&self) -> bool {
        !self.exclude_ports.is_empty()
    }

    /// May a wait on this connection be awake, while kernel TCP carries it?
    pub fn waits_awake(&self, local: Option<SocketAddr>, peer: SocketAddr) -> bool {
        let near = || {
            let ip = peer.ip().to_canonical();
            is_private(ip) || self.cluster.iter().any(|block| block.contains(ip))
        };
        let in_scope = match self.awake {
            AwakeScope::Off => false,
            AwakeScope::Private => near(),
            AwakeScope::All => true,
        };
        in_scope && self.check(local, peer) != Err(OutOfScope::Excluded)
    }

    /// May a connection to another host leave the kernel? Where no cluster is given, the daemon's list
    /// of peers decides.
    pub fn allows_other_hosts(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        match self.check(Some(local), peer) {
            Ok(()) => local.ip().to_canonical() != peer.ip().to_canonical(),
            Err(OutOfScope::Address) => self.cluster.is_empty(),
            Err(OutOfScope::Excluded) => false,
        }
    }

    /// `local` may be unknown as yet (unspecified): then only the peer's address counts.
    pub fn check(&self, local: Option<SocketAddr>, peer: SocketAddr) -> Result<(), OutOfScope> {
        let ip = peer.ip().to_canonical();
        let ports = [Some(peer.port()), local.map(|local| local.port())];
        if self.exclude.iter().any(|block| block.contains(ip))
            || ports
                .iter()
                .flatten()
                .any(|port| self.exclude_ports.contains(port))
        {
            return Err(OutOfScope::Excluded);
        }
        let same = local.is_none_or(|local| local.ip().to_canonical() == ip);
        let inside = match self.cluster.as_slice() {
            [] => ip.is_loopback() || same,
            blocks => blocks.iter().any(|block| block.contains(ip)),
        };
        inside.then_some(()).ok_or(OutOfScope::Address)
    }
}

/// Of this host, or of a network that is not the Internet (RFC 1918, 3927, 4193, 4291, 6598).
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn by_default_this_host_and_nobody_else() {
        let scope = Scope::default();
        let local = Some(addr("10.0.0.1:4000"));
        assert_eq!(scope.check(None, addr("127.0.0.1:80")), Ok(()));
        assert_eq!(scope.check(local, addr("[::ffff:127.0.0.1]:80")), Ok(()));
        assert_eq!(scope.check(local, addr("10.0.0.1:80")), Ok(()));
        assert_eq!(
            scope.check(local, addr("10.0.0.2:80")),
            Err(OutOfScope::Address)
        );
    }

    #[test]
    fn loopback_and_own_addresses_stay_in_their_namespace() {
        let reach = |local, peer| Reach::of(addr(local), addr(peer));
        for (local, peer) in [
            ("127.0.0.1:1", "127.0.0.2:2"),
            ("10.0.0.1:1", "127.0.0.1:2"),
            ("10.0.0.1:1", "10.0.0.1:2"),
            ("[::ffff:127.0.0.1]:1", "[::ffff:10.0.0.1]:2"),
            ("[::1]:1", "[fd00::1]:2"),
            ("[fe80::1]:1", "[fe80::2]:2"),
        ] {
            assert_eq!(reach(local, peer), Reach::Namespace, "{local} {peer}");
        }
        assert_eq!(reach("10.0.0.1:1", "10.0.0.2:2"), Reach::Host);
        assert_eq!(reach("[fd00::1]:1", "[fd00::2]:2"), Reach::Host);
    }

    #[test]
    fn waits_are_awake_in_private_networks() {
        let mut scope = Scope::default();
        let awake = |scope: &Scope, peer| scope.waits_awake(None, addr(peer));
        for near in [
            "127.0.0.1:1",
            "10.9.9.9:1",
            "172.31.0.1:1",
            "192.168.1.1:1",
            "100.127.0.1:1",
            "169.254.1.1:1",
            "[::1]:1",
            "[fd12::1]:1",
            "[fe80::1]:1",
            "[::ffff:10.0.0.1]:1",
        ] {
            assert!(awake(&scope, near), "{near}");
        }
        let far = [
            "8.8.8.8:1",
            "172.32.0.1:1",
            "100.128.0.1:1",
            "[2001:db8::1]:1",
        ];
        assert!(!far.iter().any(|far| awake(&scope, far)));
        scope.set_cluster("8.8.0.0/16").unwrap();
        assert!(awake(&scope, "8.8.8.8:1") && awake(&scope, "10.0.0.1:1"));
        scope.set_exclude("80").unwrap();
        assert!(!awake(&scope, "10.0.0.1:80"));
        assert!(!scope.waits_awake(Some(addr("10.0.0.2:80")), addr("10.0.0.1:9")));
        scope.set_awake("all").unwrap();
        assert!(awake(&scope, "[2001:db8::1]:1"));
        scope.set_awake("off").unwrap();
        assert!(!awake(&scope, "127.0.0.1:1"));
        assert!(scope.set_awake("on").is_err());
    }

    #[test]
    fn excluded_ports_count_on_both_ends() {
        let mut scope = Scope::default();
        scope.set_exclude("22, 127.0.0.9").unwrap();
        assert_eq!(
            scope.check(Some(addr("127.0.0.1:22")), addr("127.0.0.1:9")),
            Err(OutOfScope::Excluded)
        );
        assert_eq!(
            scope.check(None, addr("127.0.0.9:80")),
            Err(OutOfScope::Excluded)
        );
    }
}
