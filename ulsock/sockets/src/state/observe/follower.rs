//! Follows the journals of programs.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Pids, ProgramRow, Reach, name, read_at, read_header, row};
use crate::state::journal::{ENTRIES, Event, Journal};
use crate::state::process_group::Front;
use crate::state::process_group::found::{self, FoundFamily};
use os::fds::Transient;

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
    pids: Pids,
    /// The next entry of each journal.
    next: [u64; 2],
    /// That was not there at the last look, although later ones may be.
    hole: [Option<u64>; 2],
    /// Searches that have not found it.
    absent: u8,
}

/// So many searches in a row do not find a program that has ended. One may miss it: the process that it was to be found by
/// can end meanwhile.
const ENDED: u8 = 2;

impl Follower {
    /// With what is still known of the past.
    pub fn with_past() -> Follower {
        Follower {
            has_looked: true,
            ..Follower::default()
        }
    }

    /// Looks for programs that have begun, or ended. Takes longer than [`news`](Follower::news).
    pub fn find_programs(&mut self, reach: &Reach) {
        for followed in self.followed.values_mut() {
            followed.absent = (followed.absent + 1).min(ENDED);
        }
        let is_complete = found::each(reach, |family| self.found(family));
        if !is_complete {
            for followed in self.followed.values_mut() {
                followed.absent = 0;
            }
        }
        self.has_looked = true;
    }

    fn found(&mut self, family: FoundFamily) {
        let program = name(family.pid);
        if let Some(known) = self.followed.get_mut(&family.inode) {
            known.absent = 0;
            if let Some(program) = program {
                known.program = program;
                known.family.pid = family.pid;
                known.pids.look_again(family.pid);
            }
            return;
        }
        let written = match self.has_looked {
            true => Some([0, 0]),
            false => written(&family.records),
        };
        let (Some(program), Some(next)) = (program, written) else {
            return;
        };
        self.followed.insert(
            family.inode,
            Followed {
                pids: Pids::of(family.pid),
                family,
                program,
                next,
                hole: [None; 2],
                absent: 0,
            },
        );
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
            let lives = followed.lives();
            let mut row = row(&followed.family, followed.program.clone(), lives)?;
            if !lives {
                (row.live, row.connection_rows) = (0, Vec::new());
            }
            Some((row, lives))
        })
    }

    /// Lets go of the programs that have ended.
    pub fn forget_ended(&mut self) {
        self.followed.retain(|_, followed| followed.lives());
    }
}

/// How many entries each journal has had.
fn written(file: &Transient) -> Option<[u64; 2]> {
    let header = read_header(file)?;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some(header.noted.each_ref().map(load))
}

impl Followed {
    fn lives(&self) -> bool {
        self.absent < ENDED
    }

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
        // What was overwritten while it was copied has the old number and new content.
        let Some(now) = self::written(&self.family.records) else {
            return;
        };
        let lives = self.lives();
        let (next, hole) = (&mut self.next[number], &mut self.hole[number]);
        // A journal that runs backwards is a lie: then we begin anew with what it says.
        let oldest = now[number].max(written).saturating_sub(ENTRIES as u64);
        news.missed += oldest.saturating_sub(*next).min(written);
        *next = (*next).max(oldest).min(written);
        while *next < written {
            match journal.entry(*next) {
                Some(mut event) => {
                    event.pid = self.pids.of_any(event.pid);
                    news.events.push(ProgramEvent {
                        family: self.family.inode,
                        program: self.program.clone(),
                        event,
                    });
                }
                // It is being written just now; unless that was so at the last look, too: its writer was killed.
                None if lives && *hole != Some(*next) => {
                    *hole = Some(*next);
                    break;
                }
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
            follower.find_programs(&Reach::of(&dir));
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
        follower.find_programs(&Reach::of(&dir));
        for offset in 0..ENTRIES as u64 + 5 {
            family.note(number, Happening::Reset, offset, Reason::None);
        }
        let news = follower.news();
        assert_eq!(news.missed, 5);
        assert_eq!(offsets(&news), (5..ENTRIES as u64 + 5).collect::<Vec<_>>());
    }

    /// Its writer was killed between its number and its content.
    #[test]
    fn what_was_never_written_holds_up_nothing_for_long() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let number = family.claim().unwrap();
        let mut follower = Follower::default();
        follower.find_programs(&Reach::of(&dir));
        family.note(number, Happening::Reset, 1, Reason::None);
        family.header().noted[1].fetch_add(1, Ordering::Relaxed);
        family.note(number, Happening::Reset, 3, Reason::None);
        assert_eq!(offsets(&follower.news()), [1]);
        let news = follower.news();
        assert_eq!((offsets(&news), news.missed), (vec![3], 1));
    }

    #[test]
    fn what_a_program_did_before_it_ended_is_told() {
        let dir = Scratch::new();
        let family = ProcessGroup::create(&dir).unwrap();
        let mut follower = Follower::default();
        follower.find_programs(&Reach::of(&dir));
        let number = family.claim().unwrap();
        family.note(number, Happening::Opened, 0, Reason::None);
        drop(family);
        for _ in 0..ENDED {
            assert!(follower.followed.values().all(Followed::lives));
            follower.find_programs(&Reach::of(&dir));
        }
        assert_eq!(offsets(&follower.news()), [0]);
        let ended: Vec<_> = follower.programs().collect();
        assert_eq!((ended.len(), ended[0].0.happened.opened), (1, 1));
        assert!(!ended[0].1);
        follower.forget_ended();
        assert!(follower.followed.is_empty(), "its memory is not held on to");
    }
}
