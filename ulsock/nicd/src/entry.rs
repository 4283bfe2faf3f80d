//! A name as an entry of a [store](super::store) that hosts share: its key is `/ulsock/names/HOST/SERVICE/INSTANCE/UID`, its
//! value a line of JSON. HOST comes first, so that a store with users of its own can let each host write below its own key
//! alone.
//!
//! Whoever may write to the store may write anything: what does not fit exactly is no entry.

use std::net::{IpAddr, SocketAddr};

use rendezvous::names::{Elsewhere, LONGEST, Label, Service};
use serde::{Deserialize, Serialize};

/// Where all names are.
pub const ALL: &str = "/ulsock/names/";

/// The longest key has an IPv6 address and two numbers of ten digits.
const LONGEST_KEY: usize = ALL.len() + 39 + 1 + LONGEST + 1 + 10 + 1 + 10;
const LONGEST_VALUE: usize = 256;
const VERSION: u32 = 1;

/// What is told of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// With the host on which it is.
    pub label: Label,
    pub address: SocketAddr,
    pub pid: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    version: u32,
    address: SocketAddr,
    pid: u32,
}

/// Where those of a host are.
pub fn of_host(host: IpAddr) -> String {
    format!("{ALL}{host}/")
}

pub fn key(label: &Label, at: Elsewhere) -> String {
    let (service, instance) = (label.service.as_str(), label.instance);
    format!("{}{service}/{instance}/{}", of_host(at.host), at.uid)
}

pub fn value(address: SocketAddr, pid: u32) -> String {
    let value = Value {
        version: VERSION,
        address,
        pid,
    };
    serde_json::to_string(&value).unwrap_or_default()
}

/// Whose name it is, if this is exactly its key.
pub fn parse_key(bytes: &[u8]) -> Option<Label> {
    let text = bytes.get(..bytes.len().min(LONGEST_KEY + 1))?;
    let text = std::str::from_utf8(text).ok()?;
    let parts: Vec<&str> = text.strip_prefix(ALL)?.split('/').collect();
    let [host, service, instance, uid] = parts[..] else {
        return None;
    };
    let at = Elsewhere {
        host: host.parse().ok().filter(|host| is_of_a_host(*host))?,
        uid: uid.parse().ok()?,
    };
    let label = Label {
        service: Service::new(service)?,
        instance: instance.parse().ok()?,
        elsewhere: Some(at),
    };
    (key(&label, at).as_bytes() == bytes).then_some(label)
}

pub fn parse(key: &[u8], value: &[u8]) -> Option<Entry> {
    let label = parse_key(key)?;
    if value.len() > LONGEST_VALUE {
        return None;
    }
    let value: Value = serde_json::from_slice(value).ok()?;
    let Value { address, pid, .. } = value;
    let is_good = value.version == VERSION && address.port() != 0 && is_of_a_host(address.ip());
    is_good.then_some(Entry {
        label,
        address,
        pid,
    })
}

/// Can others reach a host there?
fn is_of_a_host(ip: IpAddr) -> bool {
    let is_near = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some(),
    };
    !is_near && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn good(key: &str, value: &str) -> bool {
        parse(key.as_bytes(), value.as_bytes()).is_some()
    }

    const KEY: &str = "/ulsock/names/10.0.0.1/db/7/0";
    const VALUE: &str = r#"{"version":1,"address":"10.0.0.1:7000","pid":5}"#;

    #[test]
    fn one_name_has_one_key() {
        assert!(good(KEY, VALUE));
        assert!(good("/ulsock/names/fd00::1/db/4294967295/1000", VALUE));
        for bad in [
            "",
            "/ulsock/names/",
            "/ulsock/names/10.0.0.1/db/7",
            "/ulsock/names/10.0.0.1/db/7/0/",
            "/ulsock/names/10.0.0.1/db/07/0",
            "/ulsock/names/10.0.0.1/db/7/+0",
            "/ulsock/names/10.0.0.1/db/4294967296/0",
            "/ulsock/names/10.0.0.1/-db/7/0",
            "/ulsock/names/10.0.0.1//7/0",
            "/ulsock/names/10.0.0.01/db/7/0",
            "/ulsock/names/fd00::0:1/db/7/0",
            "/ulsock/names/::ffff:10.0.0.1/db/7/0",
            "/ulsock/names/127.0.0.1/db/7/0",
            "/ulsock/names/0.0.0.0/db/7/0",
            "/ulsock/names/224.0.0.1/db/7/0",
            "/ulsock/names/host/db/7/0",
            "/other/10.0.0.1/db/7/0",
        ] {
            assert!(!good(bad, VALUE), "{bad}");
        }
        assert_eq!(parse(b"/ulsock/names/\xff/db/7/0", VALUE.as_bytes()), None);
    }

    #[test]
    fn values() {
        for bad in [
            "",
            "{}",
            "null",
            "[]",
            r#"{"version":2,"address":"10.0.0.1:7000","pid":5}"#,
            r#"{"version":1,"address":"10.0.0.1:0","pid":5}"#,
            r#"{"version":1,"address":"127.0.0.1:7","pid":5}"#,
            r#"{"version":1,"address":"0.0.0.0:7","pid":5}"#,
            r#"{"version":1,"address":"[fe80::1]:7","pid":5}"#,
            r#"{"version":1,"address":"db:7","pid":5}"#,
            r#"{"version":1,"address":"10.0.0.1:7000","pid":-5}"#,
            r#"{"version":1,"address":"10.0.0.1:7000"}"#,
            r#"{"version":1,"address":"10.0.0.1:7000","pid":5,"more":0}"#,
            &format!("{VALUE}{}", " ".repeat(LONGEST_VALUE)),
        ] {
            assert!(!good(KEY, bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back(
            service in "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
            numbers: (u32, u32, u32),
            ips: (IpAddr, IpAddr),
            port in 1_u16..,
        ) {
            prop_assume!(is_of_a_host(ips.0) && is_of_a_host(ips.1));
            let (instance, uid, pid) = numbers;
            let at = Elsewhere { host: ips.0, uid };
            let label = Label { service: Service::new(&service).unwrap(), instance, elsewhere: Some(at) };
            let address = SocketAddr::new(ips.1, port);
            let (key, value) = (key(&label, at), value(address, pid));
            prop_assert!(key.len() <= LONGEST_KEY && value.len() <= LONGEST_VALUE);
            let entry = Entry { label, address, pid };
            prop_assert_eq!(parse(key.as_bytes(), value.as_bytes()), Some(entry));
        }

        #[test]
        fn any_bytes(key in prop::collection::vec(any::<u8>(), 0..200), value in prop::collection::vec(any::<u8>(), 0..300)) {
            let key = [ALL.as_bytes(), &key].concat();
            prop_assert_eq!(parse(&key, &value), None);
        }

        #[test]
        fn damaged(at in 0..KEY.len(), byte: u8) {
            let mut bytes = KEY.as_bytes().to_vec();
            bytes[at] = byte;
            if let Some(label) = parse_key(&bytes) {
                prop_assert_eq!(key(&label, label.elsewhere.unwrap()).into_bytes(), bytes);
            }
        }
    }
}
