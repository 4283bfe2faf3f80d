//! One line of the peers file: `ADDRESS[:PORT] [nets=CIDR,...] keys=KEY,... [name=NAME]`. What is wrong
//! within it; what is wrong between lines is in `faults`.

use std::net::{IpAddr, SocketAddr};

use rendezvous::config::Cidr;

use super::{CONTROL_PORT, Peer};
use crate::key::PublicKey;

const WORDS: &str = "nets=, keys= and name=";
const LONGEST_NAME: usize = 64;

/// All that is wrong, if something is; `None` for a line that says nothing.
pub(super) fn parse(text: &str) -> Result<Option<Peer>, Vec<String>> {
    let text = text.split('#').next().unwrap_or("");
    let mut words = text.split_whitespace();
    let Some(address) = words.next() else {
        return Ok(None);
    };
    let mut draft = Draft::default();
    draft.set_control(address);
    words.for_each(|word| draft.set(word));
    draft.finish().map(Some)
}

#[derive(Default)]
struct Draft {
    control: Option<SocketAddr>,
    nets: Option<Vec<Cidr>>,
    keys: Option<Vec<PublicKey>>,
    name: Option<String>,
    faults: Vec<String>,
}

impl Draft {
    fn set_control(&mut self, text: &str) {
        match control(text) {
            Ok(control) => self.control = Some(control),
            Err(why) => self.faults.push(format!("{text}: {why}")),
        }
    }

    fn set(&mut self, word: &str) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let twice = match name {
            "nets" => {
                let nets = self.items(value, net);
                self.nets.replace(nets).is_some()
            }
            "keys" => {
                let keys = self.items(value, |key| {
                    PublicKey::parse(key).map_err(|why| why.to_string())
                });
                self.keys.replace(keys).is_some()
            }
            "name" => {
                self.check_name(value);
                self.name.replace(value.to_string()).is_some()
            }
            _ => {
                self.faults
                    .push(format!("{word}: no such word ({WORDS} are known)"));
                return;
            }
        };
        if twice {
            self.faults.push(format!("{name}= stands here twice"));
        }
    }

    fn items<T: PartialEq>(
        &mut self,
        list: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut items = Vec::new();
        for text in list.split(',') {
            match parse(text) {
                Ok(item) => items.push(item),
                Err(why) => self.faults.push(format!("\"{text}\": {why}")),
            }
        }
        items
    }

    fn check_name(&mut self, name: &str) {
        let fits = (1..=LONGEST_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !fits {
            self.faults.push(format!(
                "name={name}: up to {LONGEST_NAME} letters, digits, and any of -_. are wanted"
            ));
        }
    }

    fn finish(mut self) -> Result<Peer, Vec<String>> {
        if self.keys.is_none() {
            self.faults.push("keys= is missing".to_string());
        }
        match (self.control, self.keys, self.faults.is_empty()) {
            (Some(control), Some(keys), true) => Ok(Peer {
                index: 0,
                line: 0,
                name: self.name,
                control,
                nets: self.nets.unwrap_or_else(|| vec![Cidr::of(control.ip())]),
                keys,
            }),
            _ => Err(self.faults),
        }
    }
}

fn control(text: &str) -> Result<SocketAddr, &'static str> {
    let address = match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, CONTROL_PORT),
        Err(_) => text.parse().map_err(
            |_| "an address is wanted, such as 10.0.0.1, 10.0.0.1:4690 or [fd00::1]:4690",
        )?,
    };
    match address {
        _ if address.port() == 0 => Err("port 0 is none"),
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            Err("an address of one interface is not known elsewhere")
        }
        _ => check_ip(address.ip()).map(|()| address),
    }
}

fn net(text: &str) -> Result<Cidr, String> {
    let net = Cidr::parse(text)
        .ok_or("a block of addresses is wanted, such as 10.0.0.0/8, fd00::/8 or 10.0.0.1")?;
    check_ip(net.base()).or_else(|why| match net.base().is_unspecified() {
        true => Ok(()),
        false => Err(why),
    })?;
    match net.tidy() {
        tidy if tidy == net => Ok(net),
        tidy => Err(format!("it has bits beyond its prefix: {tidy}?")),
    }
}

/// What no nicd can have as its address, and no connection as its end.
fn check_ip(ip: IpAddr) -> Result<(), &'static str> {
    match ip {
        _ if ip.is_unspecified() => Err("this address stands for all and for none"),
        _ if ip.is_multicast() => Err("this address is a group's"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err("give the IPv4 address as such"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            Err("a link-local address is good on one interface only")
        }
        _ => Ok(()),
    }
}
