//! Between the thread of a source and the daemon: the thread lays down whole sets of peers, of which the last counts, and the
//! daemon takes them when its bell has rung. Nothing gathers here, however much a source has to say.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::Entry;
use super::saved::Saved;
use super::sift::{Last, Refused, sift};
use crate::peers::Peers;
use crate::say;

/// Refused entries that are shown; all are counted.
const MOST_SHOWN: usize = 8;
/// The source is away after so many in a row.
const FAILURES: u32 = 2;
/// Of each, so much.
const LONGEST_WHY: usize = 300;

/// What can be done about a set that this host does not fit into.
const UNFIT: &str = "announce this host with `ulsock nicd join`, or restart nicd if it has moved";

/// How it goes with where the peers come from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SourceStatus {
    /// The file, or the source.
    pub title: String,
    /// What it says is known as it is now. Of a file: it was read without a mistake when it was read last.
    pub in_touch: bool,
    /// Seconds since the peers were known to be as it says.
    pub age: f64,
    /// The last error, until it is over, and what can be done about it.
    pub why: String,
    pub cure: String,
    /// Entries that are in use, and those that are not, or not as they are now; some of these.
    pub used: usize,
    pub refused: usize,
    pub shown: Vec<String>,
}

/// What the daemon finds there.
#[derive(Debug)]
pub struct Notice {
    pub peers: Peers,
}

#[derive(Default)]
struct State {
    notice: Option<Notice>,
    /// When all was known to be as the source has it; `None`: it is still so.
    known: Option<Instant>,
    in_touch: bool,
    why: String,
    /// Why the daemon does not use the last set.
    unfit: Option<String>,
    used: usize,
    refused: Vec<Refused>,
}

struct Shared {
    title: String,
    cure: String,
    state: Mutex<State>,
    bell: OwnedFd,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The daemon's side.
pub struct Desk(Arc<Shared>);

/// The side of the source.
pub struct News {
    shared: Arc<Shared>,
    saved: Saved,
    last: Last,
    /// In a row.
    failures: u32,
    refused: Vec<Refused>,
    /// The last set is not on disk.
    unsaved: bool,
}

impl Desk {
    /// `last`: the lines that are in use already, and since when they may not be those of the source.
    pub fn new(
        title: &str,
        cure: &str,
        saved: Saved,
        last: Last,
        known: Option<Instant>,
    ) -> rustix::io::Result<(Desk, News)> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            title: title.to_owned(),
            cure: cure.to_owned(),
            state: Mutex::new(State {
                known,
                used: last.len(),
                ..State::default()
            }),
            bell: eventfd(0, flags)?,
        });
        let news = News {
            shared: shared.clone(),
            saved,
            last,
            failures: 0,
            refused: Vec::new(),
            unsaved: false,
        };
        Ok((Desk(shared), news))
    }

    pub fn take(&self) -> Option<Notice> {
        let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
        self.0.state().notice.take()
    }

    /// The last set is used, or why not.
    pub fn note(&self, unfit: Option<String>) {
        self.0.state().unfit = unfit;
    }

    /// Is that why the last set is not used?
    pub fn is_unfit_for(&self, why: &str) -> bool {
        self.0.state().unfit.as_deref() == Some(why)
    }

    pub fn status(&self) -> SourceStatus {
        let state = self.0.state();
        let age = state.known.map_or(0.0, |it| it.elapsed().as_secs_f64());
        let unfit = state.unfit.as_ref().filter(|_| state.why.is_empty());
        let (why, cure) = match unfit {
            Some(why) => (why.clone(), UNFIT.to_owned()),
            None if state.why.is_empty() => Default::default(),
            None => (state.why.clone(), self.0.cure.clone()),
        };
        SourceStatus {
            title: self.0.title.clone(),
            in_touch: state.in_touch,
            age,
            why,
            cure,
            used: state.used,
            refused: state.refused.len(),
            shown: shown(&state.refused),
        }
    }
}

impl AsFd for Desk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }
}

fn shown(refused: &[Refused]) -> Vec<String> {
    let text = |it: &Refused| -> String {
        let text = format!("{}: {}", it.origin, it.why);
        os::plain::plain(text.as_bytes())
            .chars()
            .take(LONGEST_WHY)
            .collect()
    };
    refused.iter().take(MOST_SHOWN).map(text).collect()
}

impl News {
    /// What the daemon has begun with came from the source just now.
    pub fn keep(&mut self) {
        self.unsaved = true;
        let unsaved = self.save();
        self.shared.state().why = unsaved.unwrap_or_default();
    }

    /// This is all that the source has, and it was read to its end without an error: nothing at all is possible, too.
    pub fn all(&mut self, entries: Vec<Entry>) {
        let sifted = match sift(entries, &self.last) {
            Ok(sifted) => sifted,
            Err(why) => return self.lost(&why),
        };
        self.complain_of(&sifted.refused);
        let changed = sifted.lines != self.last;
        self.last = sifted.lines;
        self.unsaved |= changed;
        let unsaved = self.save();
        let mut state = self.shared.state();
        if !state.in_touch {
            say!(
                "{}: in touch, {} entries",
                self.shared.title,
                self.last.len()
            );
        }
        (state.in_touch, state.known) = (true, None);
        state.why = unsaved.unwrap_or_default();
        state.used = self.last.len();
        state.refused = sifted.refused;
        self.failures = 0;
        if changed {
            state.notice = Some(Notice {
                peers: sifted.peers,
            });
            drop(state);
            self.ring();
        }
    }

    /// It cannot be reached, says that it cannot answer, or makes no sense.
    pub fn lost(&mut self, why: &str) {
        let why: String = os::plain::plain(why.as_bytes())
            .chars()
            .take(LONGEST_WHY)
            .collect();
        let mut state = self.shared.state();
        state.known.get_or_insert_with(Instant::now);
        state.in_touch = false;
        state.why.clone_from(&why);
        drop(state);
        self.failures += 1;
        // Said once, and not for every try; and not at all if the next member of the cluster has answered at once.
        if self.failures == FAILURES {
            let (title, cure) = (&self.shared.title, &self.shared.cure);
            say!("{title}: {why}; the last peers stay ({cure})");
        }
    }

    /// Why it is not on disk.
    fn save(&mut self) -> Option<String> {
        if !self.unsaved {
            return None;
        }
        match self.saved.store(&self.last) {
            Ok(()) => {
                self.unsaved = false;
                None
            }
            Err(why) => {
                let path = self.saved.path().display();
                let why = format!("the peers cannot be saved in {path}: {why}");
                say!("{why}");
                Some(why)
            }
        }
    }

    /// Of what was not refused before.
    fn complain_of(&mut self, refused: &[Refused]) {
        let new: Vec<Refused> = refused
            .iter()
            .filter(|it| !self.refused.contains(it))
            .cloned()
            .collect();
        for text in shown(&new) {
            say!("{}: an entry is not used: {text}", self.shared.title);
        }
        if new.len() > MOST_SHOWN {
            let more = new.len() - MOST_SHOWN;
            say!("{}: {more} more entries are not used", self.shared.title);
        }
        self.refused = refused.to_vec();
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u8) -> Entry {
        let key = crate::key::PublicKey::new([number; 32]);
        let line = format!("10.0.0.{number} keys={key}");
        Entry::new(number.to_string().as_bytes(), line.as_bytes())
    }

    #[test]
    fn the_last_set_counts_and_an_error_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved::new(&folder.path().join("peers"), "it");
        let (desk, mut news) =
            Desk::new("it", "mend it", saved.clone(), Last::new(), None).unwrap();
        news.all(vec![entry(1)]);
        news.all(vec![entry(1), entry(2)]);
        assert_eq!(desk.take().unwrap().peers.len(), 2);
        assert!(desk.take().is_none());
        news.lost("no answer");
        let status = desk.status();
        assert!(!status.in_touch && status.cure == "mend it", "{status:?}");
        assert_eq!(status.why, "no answer");
        news.all(vec![entry(1), entry(2)]);
        assert!(desk.take().is_none(), "nothing has changed");
        let status = desk.status();
        assert!(status.in_touch && status.why.is_empty() && status.age == 0.0);
        news.all(vec![entry(1), Entry::new(b"3", b"\x1b[2J")]);
        assert_eq!(desk.take().unwrap().peers.len(), 1);
        assert_eq!(desk.status().refused, 1);
        assert!(!desk.status().shown[0].contains('\x1b'));
        news.all((0..=super::super::MOST_ENTRIES).map(|_| entry(9)).collect());
        assert!(desk.take().is_none() && !desk.status().in_touch);
        news.all(Vec::new());
        assert!(desk.take().unwrap().peers.is_empty(), "an honest empty set");
        assert!(saved.load().unwrap().0.is_empty());
    }
}
