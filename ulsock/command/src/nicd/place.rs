//! What `--peers` names: a file, or the place where a cluster keeps its hosts.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Below it are the hosts in etcd, if no other prefix is named.
const PREFIX: &str = "/ulsock/peers/";

const DNS: &str = "dns:DOMAIN or dns://RESOLVER/DOMAIN is wanted, with the resolver's address";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    /// URLs of the members, and the prefix of the keys.
    Etcd(Vec<String>, String),
    /// HOST:PORT of the API server; `None`: as a pod is told.
    Kubernetes(Option<String>),
    /// The domain, and the resolver that is asked; `None`: that of this host.
    Dns(String, Option<SocketAddr>),
}

impl Place {
    pub fn parse(named: &Path) -> Result<Place, &'static str> {
        let Some(text) = named.to_str() else {
            return Ok(Place::File(named.to_owned()));
        };
        match text.split_once(':') {
            Some(("etcd", rest)) => etcd("http", rest),
            Some(("etcds", rest)) => etcd("https", rest),
            Some(("kubernetes", "" | "//")) => Ok(Place::Kubernetes(None)),
            Some(("kubernetes", rest)) => match rest.strip_prefix("//") {
                Some(server) => Ok(Place::Kubernetes(Some(server.to_owned()))),
                None => Err("kubernetes: or kubernetes://HOST:PORT is wanted"),
            },
            Some(("dns", rest)) => dns(rest),
            Some((_, rest)) if rest.starts_with("//") => {
                Err("a file, etcd://, etcds://, kubernetes: or dns: is wanted")
            }
            _ => Ok(Place::File(named.to_owned())),
        }
    }
}

fn etcd(scheme: &str, rest: &str) -> Result<Place, &'static str> {
    let rest = rest
        .strip_prefix("//")
        .ok_or("etcd://HOST:PORT,.../PREFIX/ is wanted")?;
    let (members, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let urls = members.split(',').map(|it| format!("{scheme}://{it}"));
    let prefix = match prefix {
        "" | "/" => PREFIX,
        prefix if prefix.ends_with('/') => prefix,
        _ => return Err("a prefix ends with a slash, or it would be that of other keys, too"),
    };
    let is_plain = prefix.bytes().all(|it| it.is_ascii_graphic());
    match is_plain && prefix.len() <= 256 {
        true => Ok(Place::Etcd(urls.collect(), prefix.to_owned())),
        false => Err("a prefix is up to 256 visible ASCII characters"),
    }
}

/// As RFC 4501 has it, with an address in the place of a server's name.
fn dns(rest: &str) -> Result<Place, &'static str> {
    let (server, domain) = match rest.strip_prefix("//") {
        None => (None, rest),
        Some(rest) => {
            let (server, domain) = rest.split_once('/').ok_or(DNS)?;
            (Some(resolver(server).ok_or(DNS)?), domain)
        }
    };
    let domain = domain.trim_end_matches('.');
    match domain.is_empty() {
        true => Err(DNS),
        false => Ok(Place::Dns(domain.to_owned(), server)),
    }
}

fn resolver(text: &str) -> Option<SocketAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let usual = bare.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, 53));
    usual.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let parse = |text: &str| Place::parse(Path::new(text));
        let etcd = |urls: &[&str], prefix: &str| {
            let urls = urls.iter().map(|it| (*it).to_owned());
            Ok(Place::Etcd(urls.collect(), prefix.to_owned()))
        };
        assert_eq!(
            parse("etcd://10.0.0.1:2379,[fd00::1]:2379"),
            etcd(
                &["http://10.0.0.1:2379", "http://[fd00::1]:2379"],
                "/ulsock/peers/"
            )
        );
        assert_eq!(
            parse("etcds://etcd:2379/my/hosts/"),
            etcd(&["https://etcd:2379"], "/my/hosts/")
        );
        for file in ["/etc/ulsock/peers", "peers", "a:b", "./etcd:peers"] {
            assert_eq!(parse(file), Ok(Place::File(file.into())));
        }
        assert_eq!(parse("kubernetes:"), Ok(Place::Kubernetes(None)));
        let server = Some("10.0.0.1:6443".to_owned());
        assert_eq!(
            parse("kubernetes://10.0.0.1:6443"),
            Ok(Place::Kubernetes(server))
        );
        let domain = || "example.org".to_owned();
        assert_eq!(parse("dns:example.org."), Ok(Place::Dns(domain(), None)));
        for (server, expected) in [
            ("10.0.0.53", "10.0.0.53:53"),
            ("10.0.0.53:5353", "10.0.0.53:5353"),
            ("[fd00::53]", "[fd00::53]:53"),
        ] {
            let server = parse(&format!("dns://{server}/example.org"));
            let expected = Some(expected.parse().unwrap());
            assert_eq!(server, Ok(Place::Dns(domain(), expected)));
        }
        for bad in [
            "etcd:10.0.0.1",
            "etcd://a:1/b",
            "etcd://a:1/b c/",
            "ftp://a",
            "dns:",
            "dns://example.org",
            "dns://x/y",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
