//! The peers of a nicd in Kubernetes: each node that belongs to them has an annotation with a line as of the peers file. The
//! nodes are listed once, and then watched. The `ulsock` command alone links it.
//!
//! Two requests are all that is asked of the API server, so that a client of HTTP/1.1 does it, without the crates that know
//! all of Kubernetes.

#![deny(unsafe_code)]

mod api;
mod body;
mod nodes;
mod settings;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nicd::source::{Backoff, Entry, News, PeerSource};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use api::Api;
use nodes::{Change, Known, Page};
pub use settings::{BadSettings, Settings};

/// For all pages of the nodes: a server that sends them byte by byte is as good as away.
const LISTING: Duration = Duration::from_secs(60);
/// Changes that come within so long are told together.
const GATHER: Duration = Duration::from_millis(250);
/// After a watch that the server has ended early.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

const CURE: &str = "is the API server up? may this service account list and watch nodes (ClusterRole)? do token and \
                    certificate fit? it is tried again";

pub struct KubernetesPeers {
    title: String,
    api: Arc<Api>,
}

impl KubernetesPeers {
    /// Nothing is sent before it is asked for.
    pub fn new(settings: &Settings) -> Result<KubernetesPeers, BadSettings> {
        Ok(KubernetesPeers {
            title: format!("Kubernetes nodes at {}:{}", settings.host, settings.port),
            api: Arc::new(Api::new(settings)?),
        })
    }
}

impl PeerSource for KubernetesPeers {
    fn title(&self) -> &str {
        &self.title
    }

    fn cure(&self) -> &str {
        CURE
    }

    fn read(&mut self, within: Duration) -> Result<Vec<Entry>, String> {
        let runtime = runtime().map_err(|why| why.to_string())?;
        runtime.block_on(async {
            let listed = list(&self.api, within).await;
            listed.map(|(known, _)| known.into_values().collect())
        })
    }

    fn begin(&mut self, news: News) -> io::Result<()> {
        let runtime = runtime()?;
        let api = self.api.clone();
        let serve = move || match runtime.block_on(serve(&api, news)) {};
        thread::Builder::new()
            .name("peers".to_owned())
            .spawn(serve)
            .map(drop)
    }
}

/// Of this thread alone.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn serve(api: &Api, mut news: News) -> Infallible {
    let mut backoff = Backoff::default();
    loop {
        let mut is_read = false;
        let Err(why) = session(api, &mut news, &mut is_read).await;
        if is_read {
            backoff.reset();
        }
        news.lost(&why);
        sleep(backoff.pause()).await;
    }
}

/// Until something fails. What the server does not remember any more is listed anew.
async fn session(api: &Api, news: &mut News, is_read: &mut bool) -> Result<Infallible, String> {
    loop {
        let (mut known, mut version) = list(api, LISTING).await?;
        news.all(known.values().cloned().collect());
        *is_read = true;
        while watch(api, &mut known, &mut version, news).await? {}
        sleep(SHORTEST_WATCH).await;
    }
}

/// All that is there, and of which version that is.
async fn list(api: &Api, within: Duration) -> Result<(Known, String), String> {
    let listed = timeout(within, pages(api)).await;
    listed.unwrap_or_else(|_| Err("no whole answer in time".to_owned()))
}

async fn pages(api: &Api) -> Result<(Known, String), String> {
    let mut known = Known::new();
    let mut next = String::new();
    loop {
        let mut body = api.get(&nodes::list(&next)).await?;
        let page = Page::parse(&body.whole().await?)?;
        for (name, entry) in page.entries {
            nodes::put(&mut known, name, entry)?;
        }
        match page.next {
            Some(more) => next = more,
            None => return Ok((known, page.version)),
        }
    }
}

/// Until the server ends it, as it does now and then. `false`: it does not remember that version.
async fn watch(
    api: &Api,
    known: &mut Known,
    version: &mut String,
    news: &mut News,
) -> Result<bool, String> {
    let began = Instant::now();
    let mut body = match api.get(&nodes::watch(version)).await {
        Err(why) if why.starts_with(api::GONE) => return Ok(false),
        body => body?,
    };
    let mut tell_at: Option<Instant> = None;
    loop {
        let until = tell_at.unwrap_or_else(|| Instant::now() + nodes::WATCH_SILENCE);
        let line = match (timeout_at(until, body.line()).await, tell_at) {
            (Ok(line), _) => line?,
            (Err(_), Some(_)) => {
                tell_at = None;
                news.all(known.values().cloned().collect());
                continue;
            }
            (Err(_), None) => return Err("the watch has fallen silent".to_owned()),
        };
        let Some(line) = line else {
            break;
        };
        match nodes::change(&line)? {
            Change::Put(name, entry, at) => {
                *version = at;
                let changed = known.get(&name) != entry.as_ref();
                nodes::put(known, name, entry)?;
                if changed {
                    tell_at.get_or_insert(Instant::now() + GATHER);
                }
            }
            Change::Gone(name, at) => {
                *version = at;
                if known.remove(&name).is_some() {
                    tell_at.get_or_insert(Instant::now() + GATHER);
                }
            }
            Change::Bookmark(at) => *version = at,
            Change::Forgotten => return Ok(false),
        }
    }
    if tell_at.is_some() {
        news.all(known.values().cloned().collect());
    }
    if began.elapsed() < SHORTEST_WATCH {
        sleep(SHORTEST_WATCH).await;
    }
    Ok(true)
}
