//! A cluster's etcd: names of its programs there, a [`Store`] for the daemon of a host; and its hosts, the daemon's peers. The
//! `ulsock` command alone links it.
//!
//! One thread with a runtime of its own. What is read from etcd is not looked at here, but for its length: the daemon
//! judges it.

mod cause;
mod client;
mod messages;
mod peers;
mod registry;
mod session;
mod settings;
mod wanted;

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nicd::store::{News, Place, Store};
use tokio::time::sleep;
use tonic::transport::Endpoint;

use client::{Client, Trouble};
pub use peers::{EtcdPeers, PREFIX};
pub use registry::{Held, Registry};
use session::Keeper;
pub use settings::{BadSettings, Settings, User};
use wanted::Wanted;

/// Between two sessions.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

pub struct Etcd {
    title: String,
    wanted: Arc<Wanted>,
    /// Until it begins.
    links: Option<Links>,
}

struct Links {
    endpoints: Vec<Endpoint>,
    user: Option<User>,
}

impl Etcd {
    /// Nothing is sent before the daemon begins.
    pub fn new(settings: &Settings) -> Result<Etcd, BadSettings> {
        Ok(Etcd {
            title: format!("etcd at {}", settings.urls.join(", ")),
            wanted: Arc::default(),
            links: Some(Links {
                endpoints: settings.endpoints()?,
                user: settings.user.clone(),
            }),
        })
    }
}

impl Store for Etcd {
    fn title(&self) -> &str {
        &self.title
    }

    fn begin(&mut self, place: Place, news: News) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let links = self.links.take().ok_or(io::ErrorKind::AlreadyExists)?;
        let wanted = self.wanted.clone();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    never = serve(&links, &wanted, &place, &news) => match never {},
                    () = wanted.ended() => {}
                }
            });
        };
        thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(serve)
            .map(drop)
    }

    fn put(&self, key: String, value: String) {
        self.wanted.set(key, Some(value));
    }

    fn remove(&self, key: String) {
        self.wanted.set(key, None);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.wanted.end();
    }
}

/// One session after the other, each with the next member.
async fn serve(links: &Links, wanted: &Wanted, place: &Place, news: &News) -> Infallible {
    let keeper = Keeper {
        wanted,
        news,
        all: &place.all,
        own: &place.own,
        lease: Cell::new(None),
        in_touch: Cell::new(Instant::now()),
        complete: Cell::new(false),
    };
    let mut pause = SHORTEST_PAUSE;
    for endpoint in links.endpoints.iter().cycle() {
        let Err(why) = connected(&keeper, endpoint, links.user.as_ref()).await;
        if keeper.complete.get() {
            pause = SHORTEST_PAUSE;
        }
        keeper.room().await;
        news.lost(&why.to_string(), keeper.in_touch.get().elapsed());
        // A thousand hosts that have lost the same member do not come back at the same moment.
        let share = os::random().unwrap_or_default() % 1000;
        sleep(pause / 2 + pause.mul_f64(share as f64 / 1000.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    unreachable!("there is at least one member");
}

async fn connected(
    keeper: &Keeper<'_>,
    endpoint: &Endpoint,
    user: Option<&User>,
) -> Result<Infallible, Trouble> {
    let client = Client::connect(endpoint, user).await?;
    keeper.session(client).await
}
