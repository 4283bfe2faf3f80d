//! Where the daemon's peers come from: the peers file, which is read at the start and again on SIGHUP, or a
//! [source](super::source) that tells of changes by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::peers::{NotListed, Peer, Peers, is_here};
use super::say;
use super::source::{Desk, Last, News, PeerSource, Saved, SourceStatus, sift};

/// For the first answer of a source; then the last saved one has to do.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// What the daemon is told of it.
pub enum PeersFrom {
    File(PathBuf),
    /// And where its last good answer is kept.
    Source(Box<dyn PeerSource>, PathBuf),
}

pub enum Roster {
    File(File),
    Source(Source),
}

pub struct File {
    path: PathBuf,
    /// When it was read last without a mistake, and what was wrong since.
    read: Instant,
    why: String,
}

pub struct Source {
    title: String,
    desk: Desk,
    /// Until we serve.
    waiting: Option<(Box<dyn PeerSource>, News)>,
}

impl Roster {
    /// All peers, and which of them we are.
    pub fn open(from: PeersFrom, own: &Identity) -> Result<(Roster, Peers, Peer), String> {
        let (roster, peers) = match from {
            PeersFrom::File(path) => Roster::of_file(path)?,
            PeersFrom::Source(source, saved) => Roster::of_source(source, &saved)?,
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
        let (read, why) = (Instant::now(), String::new());
        Ok((Roster::File(File { path, read, why }), peers))
    }

    fn of_source(mut source: Box<dyn PeerSource>, saved: &Path) -> Result<(Roster, Peers), String> {
        let title = source.title().to_owned();
        let saved = Saved::new(saved, &title);
        let old = saved.load();
        let last = old
            .as_ref()
            .map_or(Last::new(), |(_, last, _)| last.clone());
        let answer = source.read(FIRST_ANSWER);
        let sifted = answer.and_then(|entries| sift(entries, &last));
        let is_fresh = sifted.is_ok();
        let (peers, last, known) = match (sifted, old) {
            (Ok(sifted), _) => (sifted.peers, sifted.lines, Instant::now()),
            (Err(why), Ok((peers, last, age))) => {
                let seconds = age.as_secs();
                let cure = source.cure();
                say!("{title}: {why}; begins with what it said {seconds} s ago ({cure})");
                let known = Instant::now().checked_sub(age);
                (peers, last, known.unwrap_or_else(Instant::now))
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

    /// All peers, if they have changed.
    pub fn changed(&self) -> Option<Peers> {
        match self {
            Roster::File(_) => None,
            Roster::Source(source) => Some(source.desk.take()?.peers),
        }
    }

    /// What was read last was used, or why not.
    pub fn note(&mut self, used: Result<(), String>) {
        match (self, used) {
            (Roster::File(file), Ok(())) => (file.read, file.why) = (Instant::now(), String::new()),
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
