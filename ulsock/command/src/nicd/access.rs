//! What proves to etcd who we are, and it to us. The files are read at the start, while the daemon may still read them.

#[cfg(any(feature = "etcd", feature = "kubernetes"))]
use std::path::Path;
use std::path::PathBuf;

#[cfg(any(feature = "etcd", feature = "kubernetes"))]
use ::nicd::trusted::{self, Readers};
use clap::Args;

#[cfg(any(feature = "etcd", feature = "kubernetes"))]
use crate::failure::Failure;

#[derive(Args)]
#[command(next_help_heading = "Access to etcd")]
pub struct EtcdAccess {
    /// The certificates of the authority that the cluster's own come from, for https:// and etcds://
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate of this host
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// The key of that certificate, in a file that only this user can read
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// The user of this host in etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// The password of that user, in a file that only this user can read
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

/// Certificates and keys are PEM.
#[cfg(feature = "etcd")]
pub struct Credentials {
    pub ca: Option<String>,
    /// Our certificate, and its key.
    pub identity: Option<(String, String)>,
    /// The name and the password.
    pub user: Option<(String, String)>,
}

impl EtcdAccess {
    pub fn is_given(&self) -> bool {
        self.etcd_ca.is_some() || self.etcd_cert.is_some() || self.etcd_user.is_some()
    }

    /// What is in the files.
    #[cfg(feature = "etcd")]
    pub fn read(&self) -> Result<Credentials, Failure> {
        let ca = self.etcd_ca.as_ref();
        let ca = ca.map(|path| read(path, Readers::All)).transpose()?;
        let identity = match (&self.etcd_cert, &self.etcd_key) {
            (Some(certificate), Some(key)) => {
                Some((read(certificate, Readers::All)?, read(key, Readers::Few)?))
            }
            _ => None,
        };
        let user = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(name), Some(path)) => {
                let password = read(path, Readers::Few)?;
                let password = password.trim_end_matches(['\r', '\n']);
                Some((name.clone(), password.to_owned()))
            }
            _ => None,
        };
        Ok(Credentials { ca, identity, user })
    }
}

/// What identifies the cluster must be nobody else's to change, and what identifies us nobody else's to read.
#[cfg(any(feature = "etcd", feature = "kubernetes"))]
pub fn read(path: &Path, readers: Readers) -> Result<String, Failure> {
    let text = trusted::read(path, readers);
    text.map_err(|why| Failure::setup(format!("{} {why}", path.display())))
}
