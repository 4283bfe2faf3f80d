//! A store that the hosts of a cluster share, such as etcd: where one is given, names are kept there, and the daemons do not
//! tell each other of them. Which store it is, this crate does not know.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rendezvous::names::Label;
use rustix::event::{EventfdFlags, eventfd};

use super::entry::{self, Entry};

/// How long the names of a host stay that gives no sign of life.
pub const TTL: Duration = Duration::from_secs(15);

/// Reports that wait for the daemon.
const MOST_REPORTS: usize = 1024;
/// Of a key that is none, so many bytes are shown.
const SHOWN: usize = 96;

/// It serves in a thread of its own, and ends when it is dropped.
pub trait Store: Send {
    /// How it is called in what the daemon says.
    fn title(&self) -> &str;

    /// Begins to tell what is there. Whatever fails later, it tries again.
    fn begin(&mut self, place: Place, news: News) -> io::Result<()>;

    /// What this host has is to be there, as long as we give signs of life, and for [`TTL`] after.
    fn put(&self, key: String, value: String);

    fn remove(&self, key: String);
}

/// Keys that begin so.
#[derive(Debug)]
pub struct Place {
    /// All that is to be told.
    pub all: String,
    /// This host's own: nobody else is to have put it, and it is not told.
    pub own: String,
}

/// What a store tells.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// All that there is follows.
    Start,
    Named(Entry),
    Gone(Label),
    /// This key, or its value, makes no sense. If it is the key of a name, that has gone.
    Odd {
        key: String,
        of: Option<Label>,
    },
    /// What was not told since the start is not there.
    Complete,
    /// The store is out of reach; and since when.
    Lost {
        why: String,
        silence: Duration,
    },
}

/// For the store's thread. Before each word it asks whether there is room.
pub struct News {
    to: Sender<Report>,
    bell: Arc<OwnedFd>,
}

/// The daemon's end.
pub struct Reports {
    from: Receiver<Report>,
    bell: Arc<OwnedFd>,
}

pub fn channel() -> rustix::io::Result<(News, Reports)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let bell = Arc::new(eventfd(0, flags)?);
    let (to, from) = bounded(MOST_REPORTS);
    let news = News {
        to,
        bell: bell.clone(),
    };
    Ok((news, Reports { from, bell }))
}

impl News {
    pub fn has_room(&self) -> bool {
        !self.to.is_full()
    }

    pub fn start(&self) {
        self.tell(Report::Start);
    }

    pub fn put(&self, key: &[u8], value: &[u8]) {
        let report = entry::parse(key, value).map(Report::Named);
        self.tell(report.unwrap_or_else(|| odd(key)));
    }

    pub fn gone(&self, key: &[u8]) {
        if let Some(label) = entry::parse_key(key) {
            self.tell(Report::Gone(label));
        }
    }

    pub fn complete(&self) {
        self.tell(Report::Complete);
    }

    pub fn lost(&self, why: &str, silence: Duration) {
        let why = why.chars().take(SHOWN).collect();
        self.tell(Report::Lost { why, silence });
    }

    fn tell(&self, report: Report) {
        let _ = self.to.try_send(report);
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

fn odd(key: &[u8]) -> Report {
    let shown = &key[..key.len().min(SHOWN)];
    Report::Odd {
        key: os::plain::plain(shown),
        of: entry::parse_key(key),
    }
}

impl Reports {
    pub fn silence(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    pub fn next(&self) -> Option<Report> {
        self.from.try_recv().ok()
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
