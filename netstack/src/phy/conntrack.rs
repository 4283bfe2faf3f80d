//! Whom the kernel's address translation has made the two ends of one connection: asked of connection tracking, for
//! one connection at a time, in our network namespace. Needs CAP_NET_ADMIN.
//!
//! An entry has two flows: how the side that connected sends, and how the other side answers. Without translation one is
//! the mirror of the other. It says who may belong together, and proves nothing: unrelated networks may use the same
//! addresses. The proof is the [witness's](super::witness).

use std::net::{IpAddr, SocketAddr};
use std::vec::Vec;

use rustix::io::{self, Errno};

use super::route::message::{self, Attributes, Message, NetlinkRequest};
use super::route::netlink::Netlink;

/// The addresses of a segment on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

#[derive(Debug)]
pub struct Conntrack(Netlink);

/// include/uapi/linux/netfilter/nfnetlink.h: the subsystem is the upper byte of a message's kind.
const SUBSYSTEM: u16 = 1 << 8;
/// include/uapi/linux/netfilter/nfnetlink_conntrack.h: messages, and attributes of each level.
const NEW: u16 = SUBSYSTEM;
const GET: u16 = SUBSYSTEM | 1;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;
const IPV4: [u16; 2] = [1, 2];
const IPV6: [u16; 2] = [3, 4];
const NUMBER: u16 = 1;
const PORTS: [u16; 2] = [2, 3];
/// include/uapi/linux/netlink.h: attributes within.
const NESTED: u16 = 1 << 15;
/// struct nfgenmsg: family, version, and two bytes of a number that is zero here.
const HEADER: usize = 4;

impl Conntrack {
    /// An error: this kernel does not track connections, or we may not ask.
    pub fn open() -> io::Result<Conntrack> {
        let mut conntrack = Conntrack(Netlink::netfilter()?);
        let nobody = SocketAddr::new(IpAddr::from([0; 4]), 0);
        conntrack.flows(Flow {
            from: nobody,
            to: nobody,
        })?;
        Ok(conntrack)
    }

    /// How the other end of the connection sends whose segments leave one end like this. `None`: nothing translates it,
    /// or nothing is known of it.
    pub fn other_end(&mut self, flow: Flow) -> io::Result<Option<Flow>> {
        let flows = self.flows(flow)?;
        let other = flows.and_then(|flows| other_of(flow, flows));
        Ok(other.filter(|other| *other != flow.mirrored()))
    }

    fn flows(&mut self, flow: Flow) -> io::Result<Option<[Flow; 2]>> {
        let request = request(flow).ok_or(Errno::INVAL)?;
        match self.0.ask(request, |answer| read(&answer)) {
            Ok(flows) => flows.map(Some).ok_or(Errno::PROTO),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Flow {
    /// Between the same addresses, the other way.
    pub fn mirrored(self) -> Flow {
        Flow {
            from: self.to,
            to: self.from,
        }
    }
}

/// The kernel finds an entry by either of its flows.
fn other_of(asked: Flow, [original, reply]: [Flow; 2]) -> Option<Flow> {
    match asked {
        _ if asked == original => Some(reply),
        _ if asked == reply => Some(original),
        _ => None,
    }
}

/// `None`: its addresses are of two families.
fn request(flow: Flow) -> Option<NetlinkRequest> {
    let (family, kinds) = match (flow.from.ip(), flow.to.ip()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (libc::AF_INET, IPV4),
        (IpAddr::V6(_), IpAddr::V6(_)) => (libc::AF_INET6, IPV6),
        _ => return None,
    };
    let (mut addresses, mut protocol) = (Vec::new(), Vec::new());
    put(&mut protocol, NUMBER, &[libc::IPPROTO_TCP as u8]);
    for (end, (kind, port)) in [flow.from, flow.to].iter().zip(kinds.iter().zip(PORTS)) {
        match end.ip() {
            IpAddr::V4(ip) => put(&mut addresses, *kind, &ip.octets()),
            IpAddr::V6(ip) => put(&mut addresses, *kind, &ip.octets()),
        }
        put(&mut protocol, port, &end.port().to_be_bytes());
    }
    let mut whole = Vec::new();
    put(&mut whole, ADDRESSES | NESTED, &addresses);
    put(&mut whole, PROTOCOL | NESTED, &protocol);
    let fixed = [family as u8, 0, 0, 0];
    Some(NetlinkRequest::new(GET, 0, &fixed).with(ORIGINAL | NESTED, &whole))
}

fn put(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    const HEAD: usize = 4;
    to.extend(((HEAD + value.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(HEAD), 0);
}

/// Both flows of an entry.
fn read(answer: &Message<'_>) -> Option<[Flow; 2]> {
    if answer.kind != NEW {
        return None;
    }
    let attributes = answer.attributes(HEADER);
    let flow = |kind| read_flow(Attributes(attributes.find(kind)?));
    Some([flow(ORIGINAL)?, flow(REPLY)?])
}

fn read_flow(flow: Attributes<'_>) -> Option<Flow> {
    let addresses = Attributes(flow.find(ADDRESSES)?);
    let protocol = Attributes(flow.find(PROTOCOL)?);
    if *protocol.find(NUMBER)?.first()? != libc::IPPROTO_TCP as u8 {
        return None;
    }
    let end = |side: usize| {
        let ip = addresses.find(IPV4[side]);
        let ip = message::address(ip.or_else(|| addresses.find(IPV6[side]))?)?;
        let port = protocol.find(PORTS[side])?.first_chunk()?;
        Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
    };
    Some(Flow {
        from: end(0)?,
        to: end(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::route::message::messages;
    use super::*;

    fn flow(from: &str, to: &str) -> Flow {
        Flow {
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
        }
    }

    #[test]
    fn what_is_asked_is_what_would_be_read() {
        for flow in [
            flow("10.0.0.1:1000", "10.96.0.1:80"),
            flow("[fd00::1]:1000", "[fd00::2]:80"),
        ] {
            let bytes = request(flow).expect("one family").finish(7);
            let message = messages(&bytes).next().expect("a message");
            let asked = message.attributes(HEADER).find(ORIGINAL);
            assert_eq!(read_flow(Attributes(asked.expect("a flow"))), Some(flow));
        }
        assert!(request(flow("10.0.0.1:1", "[fd00::1]:1")).is_none());
    }

    #[test]
    fn an_entry_is_found_by_either_flow_and_tells_of_the_other() {
        let original = flow("10.0.0.1:1000", "10.96.0.1:80");
        let reply = flow("10.0.0.2:8080", "10.0.0.1:1000");
        let flows = [original, reply];
        assert_eq!(other_of(original, flows), Some(reply));
        assert_eq!(other_of(reply, flows), Some(original));
        assert_eq!(other_of(reply.mirrored(), flows), None);
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        let flow = flow("10.0.0.1:1000", "10.96.0.1:80");
        let bytes = request(flow).expect("one family").finish(7);
        let body = &messages(&bytes).next().expect("a message").body[HEADER..];
        let mut whole = Vec::from([0; HEADER]);
        whole.extend(body);
        whole.extend(&body[..2]);
        whole.extend((REPLY | NESTED).to_ne_bytes());
        whole.extend(&body[4..]);
        let answer = |kind, body| Message {
            kind,
            sequence: 7,
            body,
        };
        assert_eq!(read(&answer(NEW, &whole)), Some([flow; 2]));
        assert_eq!(read(&answer(GET, &whole)), None);
        for length in 0..whole.len() - 2 {
            assert_eq!(read(&answer(NEW, &whole[..length])), None, "{length}");
        }
    }
}
