//! Where the daemon's peers come from: the peers file, which is read at the start and again on SIGHUP, or a
//! [source](super::source) that tells of changes by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as SystemInstant};

use netstack::time::Instant;

use super::identity::Identity;
use super::peers::{NotListed, Peer, Peers, is_here};
use super::say;
use super::source::{Desk, Last, News, PeerSource, Saved, SourceStatus, sift};

/// Peers that this host does not fit into are tried again so often: its address may come yet.
const AGAIN: Duration = Duration::from_secs(10);
/// For the first answer of a source; then the last saved one has to do.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// What the daemon is told of it.
pub enum PeersFrom {
    File(PathBuf),
    Source {
        source: Box<dyn PeerSource>,
        /// Where its last good answer is kept.
        saved: PathBuf,
        /// Who writes it, if the daemon becomes another user.
        writer: Option<u32>,
    },
}

pub enum Roster {
    File(File),
    Source(Source),
}

pub struct File {
    path: PathBuf,
    /// When it was read last without a mistake, and what was wrong since.
    read: SystemInstant,
    why: String,
}

pub struct Source {
    title: String,
    desk: Desk,
    /// What was told last and could not be used, and when it is tried again.
    unused: Option<(Peers, Instant)>,
    /// Until we serve.
    waiting: Option<(Box<dyn PeerSource>, News)>,
}

impl Roster {
    /// All peers, and which of them we are.
    pub fn open(from: PeersFrom, own: &Identity) -> Result<(Roster, Peers, Peer), String> {
        let (roster, peers) = match from {
            PeersFrom::File(path) => Roster::of_file(path)?,
            PeersFrom::Source {
                source,
                saved,
                writer,
            } => {
                let saved = Saved::new(&saved, source.title()).written_by(writer);
                Roster::of_source(source, saved)?
            }
        };
        let title = roster.title();
        let me = peers.own(&own.public(), is_here).map_err(|why| {
            let cure = match (&roster, &why) {
                (Roster::Source(_), NotListed::Neither) => ": see `ulsock nicd join`",
                _ => "",
            };
            format!("{title}: {}{cure}", in_words(&why, &roster))
        })?;
        let me = peers.get(me).ok_or("there are no peers")?.clone();
        Ok((roster, peers, me))
    }

    fn of_file(path: PathBuf) -> Result<(Roster, Peers), String> {
        let peers = load(&path)?;
        let (read, why) = (SystemInstant::now(), String::new());
        Ok((Roster::File(File { path, read, why }), peers))
    }

    fn of_source(mut source: Box<dyn PeerSource>, saved: Saved) -> Result<(Roster, Peers), String> {
        let title = source.title().to_owned();
        // What fails here fails again, and is told, when there is something to save.
        let _ = saved.prepare();
        let old = saved.load();
        let last = old
            .as_ref()
            .map_or(Last::new(), |(_, last, _)| last.clone());
        let answer = source.read(FIRST_ANSWER);
        let sifted = answer.and_then(|entries| sift(entries, &last));
        let is_fresh = sifted.is_ok();
        let (peers, last, known) = match (sifted, old) {
            (Ok(sifted), _) => (sifted.peers, sifted.lines, SystemInstant::now()),
            (Err(why), Ok((peers, last, age))) => {
                let seconds = age.as_secs();
                let cure = source.cure();
                say!("{title}: {why}; begins with what it said {seconds} s ago ({cure})");
                let known = SystemInstant::now().checked_sub(age);
                (peers, last, known.unwrap_or_else(SystemInstant::now))
            }
            (Err(why), Err(unsaved)) => {
                let (path, cure) = (saved.path().display(), source.cure());
                return Err(format!("{title}: {why} ({cure}); {path} {unsaved}"));
            }
        };
        let desk = Desk::new(&title, source.cure(), saved, last, Some(known));
        let (desk, mut news) = desk.map_err(|why| format!("no eventfd: {why}"))?;
        if is_fresh {
            news.keep();
        }
        let waiting = Some((source, news));
        let roster = Roster::Source(Source {
            title,
            desk,
            unused: None,
            waiting,
        });
        Ok((roster, peers))
    }

    pub fn title(&self) -> String {
        match self {
            Roster::File(file) => file.path.display().to_string(),
            Roster::Source(source) => source.title.clone(),
        }
    }

    /// From now on changes are told: the daemon has given up the rights that the thread shall not have.
    pub fn begin(&mut self) -> io::Result<()> {
        match self {
            Roster::File(_) => Ok(()),
            Roster::Source(source) => match source.waiting.take() {
                Some((mut source, news)) => source.begin(news),
                None => Ok(()),
            },
        }
    }

    /// Where changes are told.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Roster::File(_) => None,
            Roster::Source(source) => Some(source.desk.as_fd()),
        }
    }

    /// All peers, if somebody wants them to be read now. A source tells by itself.
    pub fn read_again(&self) -> Option<Result<Peers, String>> {
        match self {
            Roster::File(file) => Some(load(&file.path)),
            Roster::Source(_) => None,
        }
    }

    /// All peers, if they have changed, or if it is time to try them again.
    pub fn changed(&mut self, time: Instant) -> Option<Peers> {
        let Roster::Source(source) = self else {
            return None;
        };
        if let Some(notice) = source.desk.take() {
            source.unused = None;
            return Some(notice.peers);
        }
        let unused = source.unused.take_if(|(_, again)| *again <= time);
        unused.map(|(peers, _)| peers)
    }

    /// These could not be used.
    pub fn put_off(&mut self, peers: Peers, time: Instant) {
        if let Roster::Source(source) = self {
            source.unused = Some((peers, time + AGAIN));
        }
    }

    /// That has been said already, and is still so.
    pub fn is_known_to_fail(&self, why: &str) -> bool {
        match self {
            Roster::File(_) => false,
            Roster::Source(source) => source.desk.is_unfit_for(why),
        }
    }

    /// When they are tried again.
    pub fn next_appointment(&self) -> Option<Instant> {
        match self {
            Roster::File(_) => None,
            Roster::Source(source) => source.unused.as_ref().map(|(_, again)| *again),
        }
    }

    /// What was read last was used, or why not.
    pub fn note(&mut self, used: Result<(), String>) {
        match (self, used) {
            (Roster::File(file), Ok(())) => {
                (file.read, file.why) = (SystemInstant::now(), String::new())
            }
            (Roster::File(file), Err(why)) => file.why = why,
            (Roster::Source(source), used) => source.desk.note(used.err()),
        }
    }

    pub fn status(&self, used: usize) -> SourceStatus {
        match self {
            Roster::File(file) => SourceStatus {
                title: file.path.display().to_string(),
                in_touch: file.why.is_empty(),
                age: file.read.elapsed().as_secs_f64(),
                why: file.why.clone(),
                cure: match file.why.as_str() {
                    "" => String::new(),
                    _ => "mend it: `ulsock nicd check` shows what is wrong".to_owned(),
                },
                used,
                ..SourceStatus::default()
            },
            Roster::Source(source) => source.desk.status(),
        }
    }
}

fn load(path: &Path) -> Result<Peers, String> {
    Peers::load(path).map_err(|why| format!("{}: {why}", path.display()))
}

/// Lines have numbers in a file only.
fn in_words(why: &NotListed, roster: &Roster) -> String {
    match (roster, why) {
        (Roster::File(_), _) | (_, NotListed::Neither) => why.to_string(),
        (_, NotListed::Key { control, .. }) => {
            format!("the entry with this host's address {control} does not list its key")
        }
        (_, NotListed::Address { control, .. }) => format!(
            "the entry with this host's key has the address {control}, which is none of this host's"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Entry;

    fn entry(number: u8) -> Entry {
        let key = crate::key::PublicKey::new([number; 32]);
        let line = format!("10.0.0.{number} keys={key}");
        Entry::new(number.to_string().as_bytes(), line.as_bytes())
    }

    #[test]
    fn what_does_not_fit_is_tried_again_until_something_else_comes() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved::new(&folder.path().join("peers"), "it");
        let (desk, mut news) = Desk::new("it", "mend it", saved, Last::new(), None).unwrap();
        let mut roster = Roster::Source(Source {
            title: "it".to_owned(),
            desk,
            unused: None,
            waiting: None,
        });
        let time = Instant::from_nanos(1);
        news.all(vec![entry(1)]);
        let peers = roster.changed(time).unwrap();
        roster.put_off(peers, time);
        roster.note(Err("no such address here".to_owned()));
        assert!(roster.is_known_to_fail("no such address here"));
        assert_eq!(roster.next_appointment(), Some(time + AGAIN));
        assert!(roster.changed(time).is_none());
        let peers = roster.changed(time + AGAIN).unwrap();
        assert_eq!(roster.next_appointment(), None);
        roster.put_off(peers, time);
        news.all(vec![entry(1), entry(2)]);
        assert_eq!(roster.changed(time).unwrap().len(), 2);
        assert!(roster.changed(time + AGAIN).is_none());
    }
}
