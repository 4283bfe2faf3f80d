//! The options of `ulsock nicd` that put names into etcd. Their files are read at the start, while the daemon may still
//! read them.

use std::path::{Path, PathBuf};

use ::etcd::{Etcd, Settings, User};
use ::nicd::store::Store;
use ::nicd::trusted::{self, Readers};
use clap::Args;

use crate::failure::Failure;

#[derive(Args)]
#[command(next_help_heading = "Names in etcd")]
pub struct EtcdOptions {
    /// Keep names in this etcd cluster (a URL for each member), instead of telling them to the other hosts
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    etcd: Vec<String>,
    /// The certificates of the authority that the cluster's own come from, for https://
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// The certificate of this host
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// The key of that certificate, in a file that only this user can read
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// The user of this host in etcd
    #[arg(long, value_name = "NAME", requires_all = ["etcd", "etcd_password_file"])]
    etcd_user: Option<String>,
    /// The password of that user, in a file that only this user can read
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl EtcdOptions {
    /// `None`: none is wanted.
    pub fn store(&self) -> Result<Option<Box<dyn Store>>, Failure> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        let ca = self.etcd_ca.as_ref();
        let ca = ca.map(|path| read(path, Readers::All)).transpose()?;
        let identity = match (&self.etcd_cert, &self.etcd_key) {
            (Some(certificate), Some(key)) => {
                Some((read(certificate, Readers::All)?, read(key, Readers::Few)?))
            }
            _ => None,
        };
        let settings = Settings {
            urls: self.etcd.clone(),
            ca,
            identity,
            user: self.user()?,
        };
        let etcd = Etcd::new(&settings);
        let etcd = etcd.map_err(|why| Failure::setup(format!("--etcd: {why}")))?;
        Ok(Some(Box::new(etcd)))
    }

    fn user(&self) -> Result<Option<User>, Failure> {
        let (Some(name), Some(path)) = (&self.etcd_user, &self.etcd_password_file) else {
            return Ok(None);
        };
        let password = read(path, Readers::Few)?;
        Ok(Some(User {
            name: name.clone(),
            password: password.trim_end_matches(['\r', '\n']).to_owned(),
        }))
    }
}

/// What identifies the cluster must be nobody else's to change, and what identifies us nobody else's to read.
fn read(path: &Path, readers: Readers) -> Result<String, Failure> {
    let text = trusted::read(path, readers);
    text.map_err(|why| Failure::setup(format!("{} {why}", path.display())))
}
