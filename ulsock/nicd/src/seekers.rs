//! Connections whose other ends programs in containers look for, and which two of them may belong together.

use std::collections::HashMap;
use std::time::Duration;

use netstack::phy::witness::Space;
use netstack::time::Instant;

use super::words::Tuple;

/// Never used twice.
pub type SeekerId = u64;

/// How long a connection waits for its other end to be shown.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ends with the same addresses that one is compared with: unrelated networks are few, and liars are many.
const MOST_RIVALS: usize = 8;
/// Pairs of ends that wait to be compared, of all programs; no user has more of them than are left for others.
const MOST_MATCHES: usize = 4096;
/// Those that are compared in one go: each takes some questions to the kernel.
const MOST_AT_ONCE: usize = 8;
/// Between two comparisons of two ends that were not still.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(256);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeker {
    pub guest: u32,
    pub uid: u32,
    pub cookie: u64,
    pub connected: bool,
    pub tuple: Tuple,
    pub space: Space,
    pub since: Instant,
}

/// The two that may be ends of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    pub connected: SeekerId,
    pub accepted: SeekerId,
    /// The user who has shown the second one.
    uid: u32,
    due: Instant,
    pause: Duration,
}

#[derive(Default)]
pub struct Seekers {
    all: HashMap<SeekerId, Seeker>,
    by_tuple: HashMap<Tuple, Vec<SeekerId>>,
    /// How many each guest has.
    counts: HashMap<u32, usize>,
    matches: Vec<Match>,
    last: SeekerId,
}

impl Seekers {
    /// A new one, and all that it may belong to; they are due at once. What the same program has shown of this
    /// connection before counts no more.
    pub fn insert(&mut self, seeker: Seeker) {
        let same = |old: &Seeker| old.guest == seeker.guest && old.space == seeker.space;
        let older = self.of(seeker.tuple);
        for (id, _) in older.iter().filter(|(_, old)| same(old)) {
            self.remove(*id);
        }
        self.last += 1;
        let id = self.last;
        let fits =
            |other: &Seeker| other.connected != seeker.connected && other.guest != seeker.guest;
        let others = self.of(seeker.tuple.mirrored());
        let others = others.into_iter().filter(|(_, other)| fits(other));
        let room = self.room_for(seeker.uid);
        for (other, _) in others.take(MOST_RIVALS.min(room)) {
            let [connected, accepted] = match seeker.connected {
                true => [id, other],
                false => [other, id],
            };
            self.matches.push(Match {
                connected,
                accepted,
                uid: seeker.uid,
                due: seeker.since,
                pause: SHORTEST_PAUSE,
            });
        }
        self.all.insert(id, seeker);
        *self.counts.entry(seeker.guest).or_default() += 1;
        self.by_tuple.entry(seeker.tuple).or_default().push(id);
    }

    fn room_for(&self, uid: u32) -> usize {
        let free = MOST_MATCHES.saturating_sub(self.matches.len());
        let has = self.matches.iter().filter(|it| it.uid == uid).count();
        free.saturating_sub(has)
    }

    fn of(&self, tuple: Tuple) -> Vec<(SeekerId, Seeker)> {
        let ids = self.by_tuple.get(&tuple).into_iter().flatten();
        ids.filter_map(|id| Some((*id, *self.all.get(id)?)))
            .collect()
    }

    pub fn get(&self, id: SeekerId) -> Option<Seeker> {
        self.all.get(&id).copied()
    }

    pub fn remove(&mut self, id: SeekerId) {
        self.take_out(id);
        self.matches
            .retain(|it| it.connected != id && it.accepted != id);
    }

    /// Without its matches.
    fn take_out(&mut self, id: SeekerId) {
        let Some(seeker) = self.all.remove(&id) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&seeker.guest) {
            *count -= 1;
        }
        if let Some(ids) = self.by_tuple.get_mut(&seeker.tuple) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_tuple.remove(&seeker.tuple);
            }
        }
    }

    pub fn remove_all_of(&mut self, guest: u32) {
        let ids = self.ids(|seeker| seeker.guest == guest);
        ids.into_iter().for_each(|id| self.take_out(id));
        let all = &self.all;
        self.matches
            .retain(|it| all.contains_key(&it.connected) && all.contains_key(&it.accepted));
        self.counts.remove(&guest);
    }

    pub fn count_of(&self, guest: u32) -> usize {
        self.counts.get(&guest).copied().unwrap_or(0)
    }

    /// Those that have waited for long.
    pub fn tired(&self, now: Instant) -> Vec<SeekerId> {
        self.ids(|seeker| now.since(seeker.since) >= PATIENCE)
    }

    fn ids(&self, is: impl Fn(&Seeker) -> bool) -> Vec<SeekerId> {
        let all = self.all.iter().filter(|(_, seeker)| is(seeker));
        all.map(|(id, _)| *id).collect()
    }

    /// Those that are to be compared now, first who has waited longest. They are due again later, unless one of them is
    /// removed.
    pub fn due(&mut self, now: Instant) -> Vec<Match> {
        if self.matches.len() > MOST_AT_ONCE {
            self.matches
                .select_nth_unstable_by_key(MOST_AT_ONCE, |it| it.due);
        }
        let first = self.matches.iter_mut().take(MOST_AT_ONCE);
        first
            .filter(|it| it.due <= now)
            .map(|it| {
                it.due = now + it.pause;
                it.pause = (it.pause * 2).min(LONGEST_PAUSE);
                *it
            })
            .collect()
    }

    /// They belong to different connections.
    pub fn part(&mut self, it: &Match) {
        self.matches
            .retain(|other| other.connected != it.connected || other.accepted != it.accepted);
    }

    /// When two are to be compared next.
    pub fn next(&self) -> Option<Instant> {
        self.matches.iter().map(|it| it.due).min()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn end(guest: u32, connected: bool) -> Seeker {
        let end = |last: u8| SocketAddr::new([10, 0, 0, last].into(), last.into());
        let tuple = Tuple::new(end(1), end(2));
        Seeker {
            guest,
            uid: 1000 + guest,
            cookie: guest.into(),
            connected,
            tuple: if connected { tuple } else { tuple.mirrored() },
            space: Space::OWN,
            since: at(1),
        }
    }

    fn guests(seekers: &Seekers, all: &[Match]) -> Vec<[u32; 2]> {
        let guest = |id| seekers.get(id).map_or(0, |seeker| seeker.guest);
        all.iter()
            .map(|it| [guest(it.connected), guest(it.accepted)])
            .collect()
    }

    #[test]
    fn mirrored_ends_of_two_programs_are_compared() {
        let mut seekers = Seekers::default();
        for seeker in [end(1, true), end(2, true), end(3, false)] {
            seekers.insert(seeker);
        }
        let due = seekers.due(at(1));
        assert_eq!(guests(&seekers, &due), [[1, 3], [2, 3]]);
        // Not with itself, not two that have both connected, not the same way round.
        seekers.insert(end(3, true));
        seekers.insert(Seeker {
            connected: false,
            ..end(4, true)
        });
        assert_eq!(guests(&seekers, &seekers.matches.clone()).len(), 2);
    }

    #[test]
    fn they_are_compared_less_and_less_often_until_one_is_gone() {
        let mut seekers = Seekers::default();
        seekers.insert(end(1, true));
        assert_eq!(seekers.next(), None);
        seekers.insert(end(2, false));
        let mut times = 0;
        while let Some(next) = seekers.next().filter(|next| *next < at(10_000)) {
            assert!(seekers.due(next).len() == 1 && seekers.due(next).is_empty());
            times += 1;
        }
        assert!((40..60).contains(&times), "{times} times in 10 s");
        seekers.remove_all_of(1);
        assert_eq!((seekers.next(), seekers.count_of(2)), (None, 1));
        let tired = seekers.tired(at(61_000));
        assert_eq!(tired.len(), 1);
        seekers.remove(tired[0]);
        assert!(seekers.is_empty() && seekers.by_tuple.is_empty());
    }

    #[test]
    fn what_is_shown_again_takes_the_place_of_the_old() {
        let mut seekers = Seekers::default();
        seekers.insert(end(1, true));
        seekers.insert(Seeker {
            cookie: 77,
            ..end(1, true)
        });
        seekers.insert(end(2, false));
        let due = seekers.due(at(1));
        let cookies = |id| seekers.get(id).map(|seeker| seeker.cookie);
        assert_eq!(due.len(), 1);
        assert_eq!(cookies(due[0].connected), Some(77));
    }

    #[test]
    fn liars_are_looked_at_a_few_at_a_time() {
        let mut seekers = Seekers::default();
        (1..100).for_each(|guest| seekers.insert(end(guest, true)));
        seekers.insert(end(100, false));
        let due = seekers.due(at(1));
        assert_eq!(due.len(), MOST_RIVALS);
        due.iter().for_each(|it| seekers.part(it));
        assert_eq!(seekers.next(), None);
        (101..1000).for_each(|guest| seekers.insert(end(guest, false)));
        assert_eq!(seekers.matches.len(), MOST_MATCHES);
        assert_eq!(seekers.due(at(1)).len(), MOST_AT_ONCE);
    }

    /// Two ends that are never still are compared again and again; others have their turn.
    #[test]
    fn one_user_does_not_keep_others_from_being_compared() {
        let mut seekers = Seekers::default();
        let of_liar = |guest, connected| Seeker {
            uid: 1002,
            ..end(guest, connected)
        };
        (1..10).for_each(|guest| seekers.insert(of_liar(guest, true)));
        (10..2000).for_each(|guest| seekers.insert(of_liar(guest, false)));
        assert_eq!(seekers.matches.len(), MOST_MATCHES / 2);
        let honest = |connected| {
            let Seeker { tuple, .. } = end(1, connected);
            let far = SocketAddr::new([10, 0, 0, 9].into(), 9);
            let (near, far) = match connected {
                true => (tuple.local, far),
                false => (far, tuple.remote),
            };
            Seeker {
                tuple: Tuple::new(near, far),
                ..end(3000 + u32::from(connected), connected)
            }
        };
        seekers.insert(honest(true));
        seekers.insert(honest(false));
        let gos = (1..1000).find(|go| {
            let due = seekers.due(at(*go));
            guests(&seekers, &due).contains(&[3001, 3000])
        });
        assert!(gos.is_some_and(|gos| gos <= (MOST_MATCHES / MOST_AT_ONCE) as u64));
    }
}
