//! Where the API server is, and what proves to it who we are, and it to us: by default what every pod finds.

use std::fmt;
use std::path::PathBuf;

/// Where a pod finds the files of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[derive(Clone)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    /// The certificates that the server's own must come from; PEM.
    pub ca: String,
    /// The token is read anew for every connection: it changes every hour.
    pub token: PathBuf,
}

/// Why settings cannot be used.
#[derive(Debug)]
pub struct BadSettings(pub(crate) String);

impl Settings {
    /// Where the files are, unless others are named: that of the authority, and that of the token.
    pub fn usual_files() -> (PathBuf, PathBuf) {
        let file = |name: &str| [ACCOUNT, name].iter().collect();
        (file("ca.crt"), file("token"))
    }

    /// As a pod is told; or by HOST:PORT.
    pub fn server(named: Option<&str>) -> Result<(String, u16), BadSettings> {
        let variable = |name: &str| std::env::var(name).ok();
        let (host, port) = match named {
            Some(named) => split(named),
            None => {
                let host = variable("KUBERNETES_SERVICE_HOST");
                let port = variable("KUBERNETES_SERVICE_PORT");
                host.zip(port)
            }
        }
        .ok_or_else(|| {
            BadSettings("this is no pod: name the API server as kubernetes://HOST:PORT".to_owned())
        })?;
        let number = port.parse::<u16>().ok().filter(|port| *port != 0);
        let wrong = || BadSettings(format!("{port}: a port is wanted"));
        Ok((host, number.ok_or_else(wrong)?))
    }
}

fn split(named: &str) -> Option<(String, String)> {
    let (host, port) = named.trim_end_matches('/').rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .map_or(host, |host| host.trim_end_matches(']'));
    (!host.is_empty()).then(|| (host.to_owned(), port.to_owned()))
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let server = |named: &str| Settings::server(Some(named)).ok();
        assert_eq!(server("10.0.0.1:6443"), Some(("10.0.0.1".to_owned(), 6443)));
        assert_eq!(
            server("[fd00::1]:6443/"),
            Some(("fd00::1".to_owned(), 6443))
        );
        for bad in ["", "a", ":1", "a:b", "a:0", "a:99999"] {
            assert!(server(bad).is_none(), "{bad}");
        }
    }
}
