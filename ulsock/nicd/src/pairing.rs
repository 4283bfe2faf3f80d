//! Connections whose other ends programs in containers look for, and which two of them may belong together.

use std::collections::HashMap;
use std::time::Duration;

use netstack::phy::witness::Space;
use netstack::time::Instant;

use super::peer_messages::Tuple;

/// Never used twice.
pub type UnpairedId = u64;

/// How long a connection waits for its other end to be shown.
const OTHER_END_TIMEOUT: Duration = Duration::from_secs(60);
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
pub struct UnpairedEnd {
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
    pub connected: UnpairedId,
    pub accepted: UnpairedId,
    /// The user who has shown the second one.
    uid: u32,
    due: Instant,
    pause: Duration,
}

#[derive(Default)]
pub struct Pairing {
    all: HashMap<UnpairedId, UnpairedEnd>,
    by_tuple: HashMap<Tuple, Vec<UnpairedId>>,
    /// How many each guest has.
    counts: HashMap<u32, usize>,
    matches: Vec<Match>,
    last: UnpairedId,
}

impl Pairing {
    /// A new one, and all that it may belong to; they are due at once. What the same program has shown of this
    /// connection before counts no more.
    pub fn insert(&mut self, unpaired: UnpairedEnd) {
        let same = |old: &UnpairedEnd| old.guest == unpaired.guest && old.space == unpaired.space;
        let older = self.of(unpaired.tuple);
        for (id, _) in older.iter().filter(|(_, old)| same(old)) {
            self.remove(*id);
        }
        self.last += 1;
        let id = self.last;
        let fits = |other: &UnpairedEnd| {
            other.connected != unpaired.connected && other.guest != unpaired.guest
        };
        let others = self.of(unpaired.tuple.mirrored());
        let others = others.into_iter().filter(|(_, other)| fits(other));
        let room = self.room_for(unpaired.uid);
        for (other, _) in others.take(MOST_RIVALS.min(room)) {
            let [connected, accepted] = match unpaired.connected {
                true => [id, other],
                false => [other, id],
            };
            self.matches.push(Match {
                connected,
                accepted,
                uid: unpaired.uid,
                due: unpaired.since,
                pause: SHORTEST_PAUSE,
            });
        }
        self.all.insert(id, unpaired);
        *self.counts.entry(unpaired.guest).or_default() += 1;
        self.by_tuple.entry(unpaired.tuple).or_default().push(id);
    }

    fn room_for(&self, uid: u32) -> usize {
        let free = MOST_MATCHES.saturating_sub(self.matches.len());
        let has = self.matches.iter().filter(|it| it.uid == uid).count();
        free.saturating_sub(has)
    }

    fn of(&self, tuple: Tuple) -> Vec<(UnpairedId, UnpairedEnd)> {
        let ids = self.by_tuple.get(&tuple).into_iter().flatten();
        ids.filter_map(|id| Some((*id, *self.all.get(id)?)))
            .collect()
    }

    pub fn get(&self, id: UnpairedId) -> Option<UnpairedEnd> {
        self.all.get(&id).copied()
    }

    pub fn remove(&mut self, id: UnpairedId) {
        self.take_out(id);
        self.matches
            .retain(|it| it.connected != id && it.accepted != id);
    }

    /// Without its matches.
    fn take_out(&mut self, id: UnpairedId) {
        let Some(unpaired) = self.all.remove(&id) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&unpaired.guest) {
            *count -= 1;
        }
        if let Some(ids) = self.by_tuple.get_mut(&unpaired.tuple) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_tuple.remove(&unpaired.tuple);
            }
        }
    }

    pub fn remove_all_of(&mut self, guest: u32) {
        let ids = self.ids(|unpaired| unpaired.guest == guest);
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
    pub fn tired(&self, now: Instant) -> Vec<UnpairedId> {
        self.ids(|unpaired| now.since(unpaired.since) >= OTHER_END_TIMEOUT)
    }

    fn ids(&self, is: impl Fn(&UnpairedEnd) -> bool) -> Vec<UnpairedId> {
        let all = self.all.iter().filter(|(_, unpaired)| is(unpaired));
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

    fn end(guest: u32, connected: bool) -> UnpairedEnd {
        let end = |last: u8| SocketAddr::new([10, 0, 0, last].into(), last.into());
        let tuple = Tuple::new(end(1), end(2));
        UnpairedEnd {
            guest,
            uid: 1000 + guest,
            cookie: guest.into(),
            connected,
            tuple: if connected { tuple } else { tuple.mirrored() },
            space: Space::OWN,
            since: at(1),
        }
    }

    fn guests(pairing: &Pairing, all: &[Match]) -> Vec<[u32; 2]> {
        let guest = |id| pairing.get(id).map_or(0, |unpaired| unpaired.guest);
        all.iter()
            .map(|it| [guest(it.connected), guest(it.accepted)])
            .collect()
    }

    #[test]
    fn mirrored_ends_of_two_programs_are_compared() {
        let mut pairing = Pairing::default();
        for unpaired in [end(1, true), end(2, true), end(3, false)] {
            pairing.insert(unpaired);
        }
        let due = pairing.due(at(1));
        assert_eq!(guests(&pairing, &due), [[1, 3], [2, 3]]);
        // Not with itself, not two that have both connected, not the same way round.
        pairing.insert(end(3, true));
        pairing.insert(UnpairedEnd {
            connected: false,
            ..end(4, true)
        });
        assert_eq!(guests(&pairing, &pairing.matches.clone()).len(), 2);
    }

    #[test]
    fn they_are_compared_less_and_less_often_until_one_is_gone() {
        let mut pairing = Pairing::default();
        pairing.insert(end(1, true));
        assert_eq!(pairing.next(), None);
        pairing.insert(end(2, false));
        let mut times = 0;
        while let Some(next) = pairing.next().filter(|next| *next < at(10_000)) {
            assert!(pairing.due(next).len() == 1 && pairing.due(next).is_empty());
            times += 1;
        }
        assert!((40..60).contains(&times), "{times} times in 10 s");
        pairing.remove_all_of(1);
        assert_eq!((pairing.next(), pairing.count_of(2)), (None, 1));
        let tired = pairing.tired(at(61_000));
        assert_eq!(tired.len(), 1);
        pairing.remove(tired[0]);
        assert!(pairing.is_empty() && pairing.by_tuple.is_empty());
    }

    #[test]
    fn what_is_shown_again_takes_the_place_of_the_old() {
        let mut pairing = Pairing::default();
        pairing.insert(end(1, true));
        pairing.insert(UnpairedEnd {
            cookie: 77,
            ..end(1, true)
        });
        pairing.insert(end(2, false));
        let due = pairing.due(at(1));
        let cookies = |id| pairing.get(id).map(|unpaired| unpaired.cookie);
        assert_eq!(due.len(), 1);
        assert_eq!(cookies(due[0].connected), Some(77));
    }

    #[test]
    fn liars_are_looked_at_a_few_at_a_time() {
        let mut pairing = Pairing::default();
        (1..100).for_each(|guest| pairing.insert(end(guest, true)));
        pairing.insert(end(100, false));
        let due = pairing.due(at(1));
        assert_eq!(due.len(), MOST_RIVALS);
        due.iter().for_each(|it| pairing.part(it));
        assert_eq!(pairing.next(), None);
        (101..1000).for_each(|guest| pairing.insert(end(guest, false)));
        assert_eq!(pairing.matches.len(), MOST_MATCHES);
        assert_eq!(pairing.due(at(1)).len(), MOST_AT_ONCE);
    }

    /// Two ends that are never still are compared again and again; others have their turn.
    #[test]
    fn one_user_does_not_keep_others_from_being_compared() {
        let mut pairing = Pairing::default();
        let of_liar = |guest, connected| UnpairedEnd {
            uid: 1002,
            ..end(guest, connected)
        };
        (1..10).for_each(|guest| pairing.insert(of_liar(guest, true)));
        (10..2000).for_each(|guest| pairing.insert(of_liar(guest, false)));
        assert_eq!(pairing.matches.len(), MOST_MATCHES / 2);
        let honest = |connected| {
            let UnpairedEnd { tuple, .. } = end(1, connected);
            let far = SocketAddr::new([10, 0, 0, 9].into(), 9);
            let (near, far) = match connected {
                true => (tuple.local, far),
                false => (far, tuple.remote),
            };
            UnpairedEnd {
                tuple: Tuple::new(near, far),
                ..end(3000 + u32::from(connected), connected)
            }
        };
        pairing.insert(honest(true));
        pairing.insert(honest(false));
        let gos = (1..1000).find(|go| {
            let due = pairing.due(at(*go));
            guests(&pairing, &due).contains(&[3001, 3000])
        });
        assert!(gos.is_some_and(|gos| gos <= (MOST_MATCHES / MOST_AT_ONCE) as u64));
    }
}
