//! Writes a host into etcd, and takes it out again: for `ulsock nicd join` and `leave`. Nothing is changed that somebody else
//! has changed meanwhile.

use std::time::Duration;

use tonic::transport::Endpoint;

use crate::client::{Client, Trouble};
use crate::messages::*;
use crate::peers::runtime;
use crate::settings::{BadSettings, Settings, User};

pub struct Registry {
    endpoints: Vec<Endpoint>,
    user: Option<User>,
    prefix: String,
}

/// What is there of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub line: String,
    pub lease: i64,
    revision: i64,
}

impl Registry {
    pub fn new(settings: &Settings, prefix: &str) -> Result<Registry, BadSettings> {
        Ok(Registry {
            endpoints: settings.endpoints()?,
            user: settings.user.clone(),
            prefix: prefix.to_owned(),
        })
    }

    pub fn get(&self, name: &str) -> Result<Option<Held>, String> {
        let key = self.key(name);
        self.with_any(async |client: &mut Client| {
            let request = RangeRequest {
                key: key.clone(),
                ..RangeRequest::default()
            };
            let answer = client.range(&request).await?;
            Ok(answer.kvs.into_iter().next().map(|entry| Held {
                line: os::plain::plain(&entry.value),
                lease: entry.lease,
                revision: entry.mod_revision,
            }))
        })
    }

    /// Takes the place of what was there, or of nothing. `false`: that has changed meanwhile.
    pub fn put(
        &self,
        name: &str,
        line: &str,
        old: Option<&Held>,
        lease: i64,
    ) -> Result<bool, String> {
        let put = Operation::Put(PutRequest {
            key: self.key(name),
            value: line.as_bytes().to_vec(),
            lease,
        });
        self.change(name, old, put)
    }

    /// `false`: it has changed meanwhile.
    pub fn remove(&self, name: &str, old: &Held) -> Result<bool, String> {
        let key = self.key(name);
        let remove = Operation::DeleteRange(DeleteRangeRequest { key });
        self.change(name, Some(old), remove)
    }

    /// A lease that lasts so long, unless it is kept alive.
    pub fn grant(&self, ttl: Duration) -> Result<i64, String> {
        self.with_any(async |client: &mut Client| client.grant(ttl).await)
    }

    /// `false`: it is over.
    pub fn keep_alive(&self, lease: i64) -> Result<bool, String> {
        self.with_any(async |client: &mut Client| client.keep_alive(lease).await)
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn change(&self, name: &str, old: Option<&Held>, what: Operation) -> Result<bool, String> {
        let compare = Compare {
            target: CompareTarget::Mod as i32,
            key: self.key(name),
            mod_revision: Some(old.map_or(0, |old| old.revision)),
        };
        self.with_any(async |client: &mut Client| {
            client
                .change_if(vec![compare.clone()], vec![what.clone()])
                .await
        })
    }

    /// Asks one member after the other. One that has failed may have done it all the same: then the next says `false`.
    fn with_any<T>(
        &self,
        ask: impl AsyncFn(&mut Client) -> Result<T, Trouble>,
    ) -> Result<T, String> {
        let runtime = runtime().map_err(|why| why.to_string())?;
        runtime.block_on(async {
            let mut why = String::new();
            for endpoint in &self.endpoints {
                let asked = match Client::connect(endpoint, self.user.as_ref()).await {
                    Ok(mut client) => ask(&mut client).await,
                    Err(trouble) => Err(trouble),
                };
                match asked {
                    Ok(answer) => return Ok(answer),
                    Err(trouble) => why = trouble.to_string(),
                }
            }
            Err(why)
        })
    }
}
