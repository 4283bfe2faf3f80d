//! Follows the journals of programs.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ProgramRow, name, read_at, read_header, row};
use crate::state::journal::{ENTRIES, Event, Journal};
use crate::state::process_group::Front;
use crate::state::process_group::found::{self, FoundFamily};
use os::fds::Transient;
use rendezvous::rundir::RunDir;

/// What has happened, and to whom.
#[derive(Clone, Debug)]
pub struct ProgramEvent {
    /// [`ProgramRow::family`].
    pub family: u64,
    pub program: String,
    pub event: Event,
}

/// What has happened since the last look.
#[derive(Debug, Default)]
pub struct News {
    /// In the order of their times.
    pub events: Vec<ProgramEvent>,
    /// Overwritten before we looked.
    pub missed: u64,
}

/// Follows what happens to the connections of all programs that we may look at.
#[derive(Default)]
pub struct Follower {
    /// By the inode of their memory. Held open, it stays until we have read what a program that has ended left.
    followed: HashMap<u64, Followed>,
    /// Programs that are found from now on are new: what happened to them before the first look is news.
    has_looked: bool,
}

struct Followed {
    family: FoundFamily,
    program: String,
    /// The next entry of each journal.
    next: [u64; 2],
    lives: bool,
}

impl Follower {
    /// With what is still known of the past.
    pub fn with_past() -> Follower {
        Follower {
            has_looked: true,
            ..Follower::default()
        }
    }

    /// Looks for programs that have begun, or ended. Takes longer than [`news`](Follower::news).
    pub fn find_programs(&mut self, dir: &RunDir) {
        for followed in self.followed.values_mut() {
            followed.lives = false;
        }
        found::each(dir, |family| {
            let Some(program) = name(family.pid) else {
                return;
            };
            if let Some(known) = self.followed.get_mut(&family.inode) {
                known.lives = true;
                known.program = program;
                return;
            }
            let written = match self.has_looked {
                true => Some([0, 0]),
                false => written(&family.records),
            };
            let Some(next) = written else { return };
            let (inode, lives) = (family.inode, true);
            self.followed.insert(
                inode,
                Followed {
                    family,
                    program,
                    next,
                    lives,
                },
            );
        });
        self.has_looked = true;
    }

    /// What they have done since the last look.
    pub fn news(&mut self) -> News {
        let mut news = News::default();
        for followed in self.followed.values_mut() {
            followed.read(&mut news);
        }
        news.events.sort_by_key(|event| event.event.time);
        news
    }

    /// What all have done until now, with those that have ended: then there are no connections.
    pub fn programs(&self) -> impl Iterator<Item = (ProgramRow, bool)> {
        self.followed.values().filter_map(|followed| {
            let program = || followed.program.clone();
            let row = match followed.lives {
                true => row(&followed.family, program(), &name)?,
                false => ProgramRow {
                    connection_rows: Vec::new(),
                    live: 0,
                    ..row(&followed.family, program(), &|_| Some(program()))?
                },
            };
            Some((row, followed.lives))
        })
    }

    /// Lets go of the programs that have ended.
    pub fn forget_ended(&mut self) {
        self.followed.retain(|_, followed| followed.lives);
    }
}

/// How many entries each journal has had.
fn written(file: &Transient) -> Option<[u64; 2]> {
    let header = read_header(file)?;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some(header.noted.each_ref().map(load))
}

impl Followed {
    fn read(&mut self, news: &mut News) {
        let Some(written) = written(&self.family.records) else {
            return;
        };
        for (journal, written) in written.into_iter().enumerate() {
            if written != self.next[journal] {
                self.read_journal(journal, written, news);
            }
        }
    }

    fn read_journal(&mut self, number: usize, written: u64, news: &mut News) {
        let start = offset_of!(Front, journals) + number * size_of::<Journal>();
        let Some(journal) = read_at::<Journal>(&self.family.records, start) else {
            return;
        };
        let next = &mut self.next[number];
        // A journal that runs backwards is a lie: then we begin anew with what it says.
        let oldest = written.saturating_sub(ENTRIES as u64);
        news.missed += oldest.saturating_sub(*next).min(written);
        *next = (*next).clamp(oldest, written);
        while *next < written {
            match journal.entry(*next) {
                Some(event) => news.events.push(ProgramEvent {
                    family: self.family.inode,
                    program: self.program.clone(),
                    event,
                }),
                // It is being written just now: next time, unless it is overwritten then.
                None if self.lives && written - *next < ENTRIES as u64 / 2 => break,
                None => news.missed += 1,
            }
            *next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::journal::{CarrierName, Direction, Happening};
    use crate::state::process_group::ProcessGroup;
    use rendezvous::reason::Reason;
    use rendezvous::rundir::scratch::Scratch;

    fn offsets(news: &News) -> Vec<u64> {
        news.events.iter().map(|event| event.event.offset).collect()
    }

    #[test]
    fn news_are_told_once() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let moved = Happening::Moved {
            direction: Direction::Receives,
            from: CarrierName::Nic,
            to: CarrierName::Kernel,
        };
        family.note(number, Happening::Opened, 0, Reason::None);
        let (mut new, mut with_past) = (Follower::default(), Follower::with_past());
        for follower in [&mut new, &mut with_past] {
            follower.find_programs(&dir);
        }
        family.note(number, moved, 7, Reason::None);
        let news = with_past.news();
        assert_eq!(offsets(&news), [0, 7]);
        assert_eq!(news.events[1].event.happening, moved);
        assert_eq!(news.events[1].event.pid, std::process::id());
        assert_eq!(offsets(&new.news()), [7], "only what is new");
        assert_eq!(offsets(&new.news()), [], "and once");
    }

    #[test]
    fn who_looks_too_rarely_knows_how_much_was_missed() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let mut follower = Follower::default();
        follower.find_programs(&dir);
        for offset in 0..ENTRIES as u64 + 5 {
            family.note(number, Happening::Reset, offset, Reason::None);
        }
        let news = follower.news();
        assert_eq!(news.missed, 5);
        assert_eq!(offsets(&news), (5..ENTRIES as u64 + 5).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_program_did_before_it_ended_is_told() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let mut follower = Follower::default();
        follower.find_programs(&dir);
        let number = family.claim().unwrap();
        family.note(number, Happening::Opened, 0, Reason::None);
        drop(family);
        follower.find_programs(&dir);
        assert_eq!(offsets(&follower.news()), [0]);
        let ended: Vec<_> = follower.programs().collect();
        assert_eq!((ended.len(), ended[0].0.happened.opened), (1, 1));
        assert!(!ended[0].1);
        follower.forget_ended();
        assert!(follower.followed.is_empty(), "its memory is not held on to");
    }
}
