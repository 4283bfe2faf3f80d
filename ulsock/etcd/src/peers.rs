//! The peers of a nicd in etcd: below a prefix one key for each host, with a line as of the peers file as its value. All is
//! read once and then watched, with one member after the other.

mod range;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::thread;
use std::time::Duration;

use nicd::source::{Backoff, Entry, News, PeerSource};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::transport::Endpoint;

use crate::client::{Client, Trouble};
use crate::messages::*;
use crate::settings::{BadSettings, Settings, User};

/// A member that does not answer at all is noticed so soon, and costs no other traffic.
const BEAT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(5);
/// Changes that come within so long are told together: a thousand hosts may join at once.
const GATHER: Duration = Duration::from_millis(250);

pub const PREFIX: &str = "/ulsock/peers/";

const CURE: &str =
    "are its members up, with a leader? do address, certificates and user fit? it is tried again";

/// The entries, by their keys.
type Known = BTreeMap<Vec<u8>, Entry>;

pub struct EtcdPeers {
    title: String,
    links: Links,
}

#[derive(Clone)]
struct Links {
    endpoints: Vec<Endpoint>,
    user: Option<User>,
    prefix: String,
}

impl EtcdPeers {
    /// Nothing is sent before it is asked for.
    pub fn new(settings: &Settings, prefix: &str) -> Result<EtcdPeers, BadSettings> {
        let endpoints = settings.endpoints()?.into_iter().map(|endpoint| {
            let endpoint = endpoint.http2_keep_alive_interval(BEAT);
            let endpoint = endpoint.keep_alive_timeout(SILENCE);
            endpoint.keep_alive_while_idle(true)
        });
        Ok(EtcdPeers {
            title: format!("etcd at {}{prefix}", settings.urls.join(",")),
            links: Links {
                endpoints: endpoints.collect(),
                user: settings.user.clone(),
                prefix: prefix.to_owned(),
            },
        })
    }
}

impl PeerSource for EtcdPeers {
    fn title(&self) -> &str {
        &self.title
    }

    fn cure(&self) -> &str {
        CURE
    }

    fn read(&mut self, within: Duration) -> Result<Vec<Entry>, String> {
        let runtime = runtime().map_err(|why| why.to_string())?;
        runtime.block_on(async {
            let share = within / self.links.endpoints.len() as u32;
            self.links.read_from_any(share).await
        })
    }

    fn begin(&mut self, news: News) -> io::Result<()> {
        let runtime = runtime()?;
        let links = self.links.clone();
        let serve = move || match runtime.block_on(links.serve(news)) {};
        thread::Builder::new()
            .name("peers".to_owned())
            .spawn(serve)
            .map(drop)
    }
}

/// Of this thread alone.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

impl Links {
    /// Each member has so long for its answer.
    async fn read_from_any(&self, within: Duration) -> Result<Vec<Entry>, String> {
        let mut why = String::new();
        for endpoint in &self.endpoints {
            match timeout(within, self.read_from(endpoint)).await {
                Ok(Ok(known)) => return Ok(known.into_values().collect()),
                Ok(Err(trouble)) => why = trouble.to_string(),
                Err(_) => why = "no answer in time".to_owned(),
            }
        }
        Err(why)
    }

    async fn read_from(&self, endpoint: &Endpoint) -> Result<Known, Trouble> {
        let mut client = Client::connect(endpoint, self.user.as_ref()).await?;
        let (known, _) = range::read(&mut client, &self.prefix).await?;
        Ok(known)
    }

    /// One session after the other, each with the next member; hosts begin with different ones.
    async fn serve(&self, mut news: News) -> Infallible {
        let first = os::random().unwrap_or_default() as usize % self.endpoints.len();
        let mut backoff = Backoff::default();
        for endpoint in self.endpoints.iter().cycle().skip(first) {
            let mut is_read = false;
            let Err(why) = self.session(endpoint, &mut news, &mut is_read).await;
            if is_read {
                backoff.reset();
            }
            news.lost(&why.to_string());
            tokio::time::sleep(backoff.pause()).await;
        }
        unreachable!("there is at least one member");
    }

    async fn session(
        &self,
        endpoint: &Endpoint,
        news: &mut News,
        is_read: &mut bool,
    ) -> Result<Infallible, Trouble> {
        let mut client = Client::connect(endpoint, self.user.as_ref()).await?;
        loop {
            let (mut known, revision) = range::read(&mut client, &self.prefix).await?;
            news.all(known.values().cloned().collect());
            *is_read = true;
            self.watch(&mut client, revision + 1, &mut known, news)
                .await?;
        }
    }

    /// Until what comes next has been forgotten there.
    async fn watch(
        &self,
        client: &mut Client,
        from: i64,
        known: &mut Known,
        news: &mut News,
    ) -> Result<(), Trouble> {
        let request = WatchCreateRequest {
            key: self.prefix.as_bytes().to_vec(),
            range_end: range::end_of(&self.prefix),
            start_revision: from,
            fragment: true,
        };
        let mut answers = client.watch(request).await?;
        let mut tell_at: Option<Instant> = None;
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer?,
                () = at(tell_at) => {
                    tell_at = None;
                    news.all(known.values().cloned().collect());
                    continue;
                }
            };
            let answer = answer.ok_or_else(|| Trouble::Other("the watch has ended".to_owned()))?;
            if !answer.events.is_empty() {
                tell_at.get_or_insert(Instant::now() + GATHER);
            }
            for event in answer.events {
                self.apply(event, known)?;
            }
            if answer.compact_revision != 0 {
                return Ok(());
            }
            if answer.canceled {
                let why = format!("the watch has ended: {}", answer.cancel_reason);
                return Err(Trouble::Other(why));
            }
        }
    }

    fn apply(&self, event: Event, known: &mut Known) -> Result<(), Trouble> {
        let Some(entry) = event.kv else {
            return Ok(());
        };
        match event.kind == EventType::Put as i32 {
            true => range::put(known, &self.prefix, entry),
            false => {
                range::remove(known, &self.prefix, &entry.key);
                Ok(())
            }
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
