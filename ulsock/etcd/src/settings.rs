//! Where the cluster is, and what proves to it who we are.

use std::fmt;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::cause::cause;

/// For a connection to one member; then the next is tried.
const CONNECT: Duration = Duration::from_secs(3);

/// What the command line says. Files are given as what is in them: they are read while the daemon may still do so.
#[derive(Clone, Default)]
pub struct Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each member.
    pub urls: Vec<String>,
    /// The certificates that members' own must come from; PEM.
    pub ca: Option<String>,
    /// Our certificate, and its key; PEM.
    pub identity: Option<(String, String)>,
    pub user: Option<User>,
}

#[derive(Clone)]
pub struct User {
    pub name: String,
    pub password: String,
}

impl Settings {
    /// Each of the members.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, BadSettings> {
        if self.urls.is_empty() {
            return Err(BadSettings("no member of the cluster is named".to_owned()));
        }
        self.urls.iter().map(|url| self.endpoint(url)).collect()
    }

    fn endpoint(&self, url: &str) -> Result<Endpoint, BadSettings> {
        let wrong = |why: &str| BadSettings(format!("{url}: {why}"));
        let endpoint = Endpoint::from_shared(url.to_owned());
        let endpoint =
            endpoint.map_err(|_| wrong("a URL is wanted, such as http://10.0.0.1:2379"))?;
        let endpoint = endpoint.connect_timeout(CONNECT).tcp_nodelay(true);
        let has_host = endpoint.uri().host().is_some_and(|host| !host.is_empty());
        let has_port = endpoint.uri().port_u16().is_some();
        let is_bare = matches!(endpoint.uri().path(), "" | "/") && endpoint.uri().query().is_none();
        if !has_host || !has_port || !is_bare {
            return Err(wrong(
                "a URL with host and port is wanted, such as http://10.0.0.1:2379",
            ));
        }
        match endpoint.uri().scheme_str() {
            Some("http") if self.ca.is_none() && self.identity.is_none() => Ok(endpoint),
            Some("http") => Err(wrong("certificates are for https://")),
            Some("https") => {
                let ca = self.ca.as_ref();
                let ca =
                    ca.ok_or_else(|| wrong("https:// takes the certificate of its authority"))?;
                let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
                if let Some((certificate, key)) = &self.identity {
                    tls = tls.identity(Identity::from_pem(certificate, key));
                }
                let endpoint = endpoint.tls_config(tls);
                endpoint.map_err(|why| wrong(&format!("a certificate or key: {}", cause(&why))))
            }
            _ => Err(wrong("http:// or https:// is wanted")),
        }
    }
}

/// Why settings cannot be used.
#[derive(Debug)]
pub struct BadSettings(String);

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, ca: bool) -> Result<(), String> {
        let settings = Settings {
            urls: vec![url.to_owned()],
            ca: ca.then(String::new),
            ..Settings::default()
        };
        let endpoints = settings.endpoints();
        endpoints.map(|_| ()).map_err(|why| why.to_string())
    }

    #[test]
    fn urls() {
        for good in [
            "http://10.0.0.1:2379",
            "http://[fd00::1]:2379",
            "http://etcd:2379/",
        ] {
            assert_eq!(check(good, false), Ok(()));
        }
        for bad in [
            "",
            "10.0.0.1:2379",
            "http://10.0.0.1",
            "http://:2379",
            "http://10.0.0.1:99999",
            "http://10.0.0.1:2379/v3",
            "http://10.0.0.1:2379/?a",
            "ftp://10.0.0.1:2379",
            "https://10.0.0.1:2379",
        ] {
            let why = check(bad, false).expect_err(bad);
            assert!(why.starts_with(bad), "{why}");
        }
        assert!(check("http://10.0.0.1:2379", true).is_err());
        assert!(Settings::default().endpoints().is_err());
    }
}
