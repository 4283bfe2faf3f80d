//! The options of `ulsock nicd` that put names into etcd, and what it takes to get there.

use ::etcd::{Etcd, Settings, User};
use ::nicd::store::Store;
use clap::Args;

use super::access::EtcdAccess;
use crate::failure::Failure;

#[derive(Args)]
#[command(next_help_heading = "Names in etcd")]
pub struct EtcdOptions {
    /// Keep names in this etcd cluster (a URL for each member), instead of telling them to the other hosts
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    etcd: Vec<String>,
}

impl EtcdOptions {
    /// `None`: none is wanted.
    pub fn store(&self, access: &EtcdAccess) -> Result<Option<Box<dyn Store>>, Failure> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        let etcd = Etcd::new(&settings(access, &self.etcd)?);
        let etcd = etcd.map_err(|why| Failure::setup(format!("--etcd: {why}")))?;
        Ok(Some(Box::new(etcd)))
    }

    pub fn is_given(&self) -> bool {
        !self.etcd.is_empty()
    }
}

/// For a cluster with these members.
pub fn settings(access: &EtcdAccess, urls: &[String]) -> Result<Settings, Failure> {
    let credentials = access.read()?;
    let user = |(name, password)| User { name, password };
    Ok(Settings {
        urls: urls.to_vec(),
        ca: credentials.ca,
        identity: credentials.identity,
        user: credentials.user.map(user),
    })
}
