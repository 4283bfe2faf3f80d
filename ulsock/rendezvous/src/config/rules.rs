//! The rules of the configuration file that are left for this program: which of its connections stay on kernel TCP, and
//! when and how far the others leave it. Looked at where promotion is decided, never at a data call.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use super::{Cidr, glob};

/// Who opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This end.
    Connect,
    /// The other end.
    Accept,
}

/// Which connections a rule is for. A list that is empty stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Of the other end.
    pub(super) addresses: Vec<Cidr>,
    /// Of the service: the port that the listening end has, so that both ends mean the same.
    pub(super) ports: Vec<RangeInclusive<u16>>,
    /// Patterns of the name that a Unix service has bound, an abstract one behind a `@`.
    pub(super) paths: Vec<String>,
    pub(super) direction: Option<Direction>,
}

/// What a connection leads to.
#[derive(Clone, Copy, Debug)]
pub enum Service<'a> {
    Tcp {
        port: u16,
        peer: IpAddr,
    },
    /// As the service has bound it; empty for a pair.
    Unix {
        name: &'a [u8],
    },
}

impl Ends {
    pub fn are_all(&self) -> bool {
        *self == Ends::default()
    }

    /// Nothing can match it.
    pub(super) fn are_none(&self) -> bool {
        let is_tcp = !self.addresses.is_empty() || !self.ports.is_empty();
        is_tcp && !self.paths.is_empty()
    }

    fn has(&self, direction: Direction, service: Service<'_>) -> bool {
        self.direction.is_none_or(|only| only == direction)
            && match service {
                Service::Tcp { port, peer } => self.has_tcp(port, peer.to_canonical()),
                Service::Unix { name } => self.has_unix(name),
            }
    }

    fn has_tcp(&self, port: u16, peer: IpAddr) -> bool {
        let (blocks, ports) = (&self.addresses, &self.ports);
        let is_there = blocks.is_empty() || blocks.iter().any(|block| block.contains(peer));
        let is_port = ports.is_empty() || ports.iter().any(|range| range.contains(&port));
        self.paths.is_empty() && is_there && is_port
    }

    fn has_unix(&self, name: &[u8]) -> bool {
        let paths = &self.paths;
        let is_path = |pattern: &String| glob::matches(pattern.as_bytes(), name);
        let is_there = paths.is_empty() || !name.is_empty() && paths.iter().any(is_path);
        self.addresses.is_empty() && self.ports.is_empty() && is_there
    }
}

/// As a doctor tells it: "to 10.0.0.0/8, of port 80"; nothing for all.
impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        said.extend(self.direction.map(|direction| match direction {
            Direction::Connect => "that it opens".to_owned(),
            Direction::Accept => "that it accepts".to_owned(),
        }));
        let addresses: Vec<_> = self.addresses.iter().map(Cidr::to_string).collect();
        if !addresses.is_empty() {
            said.push(format!("with {}", addresses.join(" or ")));
        }
        let port = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let ports: Vec<_> = self.ports.iter().map(port).collect();
        if !ports.is_empty() {
            said.push(format!("to service port {}", ports.join(" or ")));
        }
        if !self.paths.is_empty() {
            said.push(format!("to Unix socket {}", self.paths.join(" or ")));
        }
        f.write_str(&said.join(", "))
    }
}

/// What it does not say is as for the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Where it begins in the file.
    pub line: u32,
    pub ends: Ends,
    pub on_kernel: bool,
    pub upgrade_after: Option<Option<u32>>,
    /// The largest ring level.
    pub largest: Option<u8>,
}

/// In the order of the file; the first that matches counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub(super) list: Vec<Rule>,
    /// One of them says when connections are upgraded.
    pub(super) times: bool,
}

impl Rules {
    #[inline]
    pub fn are_none(&self) -> bool {
        self.list.is_empty()
    }

    /// Must a rule be looked for as soon as a connection exists?
    #[inline]
    pub fn say_when(&self) -> bool {
        self.times
    }

    pub fn all(&self) -> &[Rule] {
        &self.list
    }

    pub fn find(&self, direction: Direction, service: Service<'_>) -> Option<&Rule> {
        let mut rules = self.list.iter();
        rules.find(|rule| rule.ends.has(direction, service))
    }
}

impl Service<'_> {
    /// The service's port is that of the end that has accepted.
    pub fn of(direction: Direction, local: SocketAddr, peer: SocketAddr) -> Service<'static> {
        let port = match direction {
            Direction::Connect => peer.port(),
            Direction::Accept => local.port(),
        };
        let peer = peer.ip();
        Service::Tcp { port, peer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn rule(line: u32, address: &str, ports: RangeInclusive<u16>) -> Rule {
        let ends = Ends {
            addresses: Cidr::parse(address).into_iter().collect(),
            ports: vec![ports],
            ..Ends::default()
        };
        Rule {
            line,
            ends,
            ..Rule::default()
        }
    }

    #[test]
    fn the_first_that_matches_counts() {
        let mut accepted = rule(3, "any", 0..=u16::MAX);
        accepted.ends.direction = Some(Direction::Accept);
        let rules = Rules {
            list: vec![
                rule(1, "10.0.0.0/8", 80..=80),
                rule(2, "10.1.0.0/16", 70..=90),
                accepted,
            ],
            times: false,
        };
        let found = |direction, local, peer| {
            let service = Service::of(direction, addr(local), addr(peer));
            let rule = rules.find(direction, service);
            rule.map(|rule| rule.line)
        };
        use Direction::{Accept, Connect};
        assert_eq!(found(Connect, "10.0.0.1:5", "10.1.0.1:80"), Some(1));
        assert_eq!(
            found(Connect, "10.0.0.1:5", "[::ffff:10.1.0.1]:81"),
            Some(2)
        );
        assert_eq!(found(Connect, "10.0.0.1:80", "10.1.0.1:5"), None);
        assert_eq!(found(Accept, "10.0.0.1:80", "10.1.0.1:5"), Some(1));
        assert_eq!(found(Accept, "[::1]:80", "[::1]:5"), Some(3));
        assert_eq!(found(Connect, "[::1]:5", "[::1]:80"), None);
    }

    #[test]
    fn unix_sockets_have_paths_and_no_ports() {
        let of_paths = |line, paths: &[&str]| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            let ends = Ends {
                paths,
                ..Ends::default()
            };
            Rule {
                line,
                ends,
                ..Rule::default()
            }
        };
        let mut accepted = of_paths(4, &[]);
        accepted.ends.direction = Some(Direction::Accept);
        let rules = Rules {
            list: vec![
                rule(1, "any", 0..=u16::MAX),
                of_paths(2, &["/run/*.sock", "@bus*"]),
                of_paths(3, &["*/.s.PGSQL.5432"]),
                accepted,
            ],
            times: false,
        };
        let found = |direction, name: &str| {
            let name = name.as_bytes();
            let rule = rules.find(direction, Service::Unix { name });
            rule.map(|rule| rule.line)
        };
        use Direction::{Accept, Connect};
        assert_eq!(found(Connect, "/run/a.sock"), Some(2));
        assert_eq!(found(Accept, "@bus-7"), Some(2));
        assert_eq!(found(Connect, "/tmp/.s.PGSQL.5432"), Some(3));
        assert_eq!(found(Connect, "/tmp/other"), None);
        assert_eq!(found(Accept, "/tmp/other"), Some(4));
        assert_eq!(found(Accept, ""), Some(4), "a pair");
        assert_eq!(found(Connect, ""), None);
        let tcp = Service::of(Connect, addr("10.0.0.1:5"), addr("10.1.0.1:80"));
        assert_eq!(rules.find(Connect, tcp).map(|rule| rule.line), Some(1));
    }
}
