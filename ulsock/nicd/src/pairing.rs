//! Connections whose other ends programs in containers look for, and which two of them may belong together.

#[cfg(test)]
mod tests;

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
    /// Its addresses as its other end sees them, as far as is known here.
    pub seen: Tuple,
    /// Its other end may be one whose addresses do not mirror its own.
    pub translated: bool,
    pub space: Space,
    pub since: Instant,
}

impl UnpairedEnd {
    /// Kernel rules may have translated its addresses: to its other end it looks like this.
    pub fn through_rules(self, seen: Tuple) -> UnpairedEnd {
        UnpairedEnd {
            seen,
            translated: true,
            ..self
        }
    }

    /// The addresses that its other end must have, if nothing else translates them.
    fn far(&self) -> Tuple {
        self.seen.mirrored()
    }

    /// By addresses alone: translated ones count if both ends agree.
    fn fits(&self, other: &UnpairedEnd) -> bool {
        let mirrored = self.tuple.mirrored() == other.tuple;
        let allowed = mirrored || self.translated && other.translated;
        allowed && self.connected != other.connected && self.guest != other.guest
    }
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
    /// By the addresses that their other ends may have.
    by_far: HashMap<Tuple, Vec<UnpairedId>>,
    /// Where rules on the way translate them: those of the other end.
    translated: HashMap<UnpairedId, Tuple>,
    /// How many each guest has.
    counts: HashMap<u32, usize>,
    matches: Vec<Match>,
    last: UnpairedId,
}

impl Pairing {
    /// A new one, and all that it may belong to; they are due at once. What the same program has shown of this
    /// connection before counts no more.
    pub fn insert(&mut self, unpaired: UnpairedEnd) -> UnpairedId {
        let same = |old: &UnpairedEnd| old.guest == unpaired.guest && old.space == unpaired.space;
        let older = of(&self.by_tuple, unpaired.tuple);
        for id in older {
            if self.get(id).is_some_and(|old| same(&old)) {
                self.remove(id);
            }
        }
        self.last += 1;
        let id = self.last;
        self.all.insert(id, unpaired);
        *self.counts.entry(unpaired.guest).or_default() += 1;
        self.by_tuple.entry(unpaired.tuple).or_default().push(id);
        self.match_with(id, of(&self.by_tuple, unpaired.far()), unpaired.since);
        self.match_with(id, of(&self.by_far, unpaired.tuple), unpaired.since);
        self.by_far.entry(unpaired.far()).or_default().push(id);
        id
    }

    /// Rules on the way translate what this one sends and receives: its other end may have these addresses. Those that
    /// mirror its own count as before, for it may be of another network than the one that was asked about.
    pub fn expect(&mut self, id: UnpairedId, far: Tuple, now: Instant) {
        let known = self.all.get(&id).is_some_and(|it| it.far() != far);
        if !known || self.translated.insert(id, far).is_some() {
            return;
        }
        self.by_far.entry(far).or_default().push(id);
        self.match_with(id, of(&self.by_tuple, far), now);
    }

    /// Those of them that fit are compared with it.
    fn match_with(&mut self, id: UnpairedId, others: Vec<UnpairedId>, now: Instant) {
        let Some(end) = self.get(id) else {
            return;
        };
        let room = self.room_for(end.uid).min(MOST_RIVALS);
        let fits = |other: &UnpairedId| self.get(*other).is_some_and(|it| end.fits(&it));
        let others = others
            .into_iter()
            .filter(fits)
            .map(|other| match end.connected {
                true => [id, other],
                false => [other, id],
            });
        let is_new = |[connected, accepted]: &[UnpairedId; 2]| {
            let same = |it: &Match| it.connected == *connected && it.accepted == *accepted;
            !self.matches.iter().any(same)
        };
        let new: Vec<_> = others.take(room).filter(is_new).collect();
        self.matches
            .extend(new.into_iter().map(|[connected, accepted]| Match {
                connected,
                accepted,
                uid: end.uid,
                due: now,
                pause: SHORTEST_PAUSE,
            }));
    }

    fn room_for(&self, uid: u32) -> usize {
        let free = MOST_MATCHES.saturating_sub(self.matches.len());
        let has = self.matches.iter().filter(|it| it.uid == uid).count();
        free.saturating_sub(has)
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
        drop_from(&mut self.by_tuple, unpaired.tuple, id);
        drop_from(&mut self.by_far, unpaired.far(), id);
        if let Some(far) = self.translated.remove(&id) {
            drop_from(&mut self.by_far, far, id);
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

fn of(index: &HashMap<Tuple, Vec<UnpairedId>>, tuple: Tuple) -> Vec<UnpairedId> {
    index.get(&tuple).cloned().unwrap_or_default()
}

fn drop_from(index: &mut HashMap<Tuple, Vec<UnpairedId>>, tuple: Tuple, id: UnpairedId) {
    if let Some(ids) = index.get_mut(&tuple) {
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            index.remove(&tuple);
        }
    }
}
