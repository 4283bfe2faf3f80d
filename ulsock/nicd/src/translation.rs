//! Who may be the other end of a connection whose addresses kernel rules translate on the way.
//!
//! Two sources tell: the socket of the end that was called knows which address that was (rules of its own network
//! namespace), and connection tracking of ours, through which containers reach each other, knows both flows. Both only
//! name candidates: whether two sockets are one connection is found out as for all others.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use netstack::phy::conntrack::{Conntrack, Flow};
use netstack::phy::witness::Space;
use netstack::time::Instant;

use super::pairing::{Pairing, UnpairedEnd, UnpairedId};
use super::peer_messages::Tuple;
use super::say;
use os::translated;

/// Questions to the kernel in one go, and between two goes: a few microseconds each.
const MOST_AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_micros(500);
/// Ends of one user that wait for their turn: who shows more at a time may be found by the other end.
const MOST_WAITING: usize = 1 << 14;
/// Of those that are gone already, in one go.
const MOST_GONE: usize = 256;

pub struct Translation {
    /// `None`: the kernel does not tell.
    conntrack: Option<Conntrack>,
    /// Those to ask about, by user; the users take turns.
    waiting: VecDeque<(u32, VecDeque<UnpairedId>)>,
    due: Instant,
}

impl Translation {
    pub fn open() -> Translation {
        let conntrack = Conntrack::open();
        let conntrack = conntrack.inspect_err(|why| {
            say!("no connection tracking: connections with translated addresses stay on kernel TCP: {why}");
        });
        Translation {
            conntrack: conntrack.ok(),
            waiting: VecDeque::new(),
            due: Instant::from_nanos(0),
        }
    }

    /// An end is new: what translates it is asked at its turn.
    pub fn note(&mut self, end: &UnpairedEnd, id: UnpairedId) {
        if self.conntrack.is_none() || !is_to_ask(end) {
            return;
        }
        match self.waiting.iter_mut().find(|(uid, _)| *uid == end.uid) {
            Some((_, ids)) if ids.len() >= MOST_WAITING => {}
            Some((_, ids)) => ids.push_back(id),
            None => self.waiting.push_back((end.uid, VecDeque::from([id]))),
        }
    }

    pub fn next(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.due)
    }

    /// Asks about those whose turn it is.
    pub fn tend(&mut self, pairing: &mut Pairing, time: Instant) {
        let Some(mut conntrack) = self.conntrack.take() else {
            return;
        };
        if self.due <= time {
            let mut ask = |end: &UnpairedEnd| other_end(&mut conntrack, end);
            self.take_turns(pairing, time, &mut ask);
            self.due = time + PAUSE;
        }
        self.conntrack = Some(conntrack);
    }

    fn take_turns(
        &mut self,
        pairing: &mut Pairing,
        time: Instant,
        ask: &mut impl FnMut(&UnpairedEnd) -> Option<Tuple>,
    ) {
        let (mut asked, mut gone) = (0, 0);
        while asked < MOST_AT_ONCE && gone < MOST_GONE {
            let Some(id) = self.first() else {
                return;
            };
            let Some(end) = pairing.get(id) else {
                gone += 1;
                continue;
            };
            asked += 1;
            if let Some(far) = ask(&end) {
                pairing.expect(id, far, time);
            }
        }
    }

    /// The first of the user whose turn it is.
    fn first(&mut self) -> Option<UnpairedId> {
        let (uid, mut ids) = self.waiting.pop_front()?;
        let first = ids.pop_front();
        if !ids.is_empty() {
            self.waiting.push_back((uid, ids));
        }
        first
    }
}

/// How an end looks outside of its own network namespace, as far as its socket tells: if it was called by another
/// address, its other end knows it by that.
pub fn seen(socket: BorrowedFd<'_>, tuple: Tuple, connected: bool) -> Tuple {
    match translated::called(socket, &tuple.local) {
        Some(called) if !connected => Tuple::new(called, tuple.remote),
        _ => tuple,
    }
}

/// Loopback addresses of another namespace mean nothing in ours.
fn is_to_ask(end: &UnpairedEnd) -> bool {
    let is_own = end.space == Space::OWN;
    end.translated && (is_own || !end.tuple.local.ip().is_loopback())
}

fn other_end(conntrack: &mut Conntrack, end: &UnpairedEnd) -> Option<Tuple> {
    let flow = Flow {
        from: end.seen.local,
        to: end.seen.remote,
    };
    let other = conntrack.other_end(flow).ok()??;
    Some(Tuple::new(other.from, other.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn end(uid: u32, number: u16) -> UnpairedEnd {
        let [local, remote] = [1, 2].map(|last| ([10, 0, 0, last], number).into());
        let tuple = Tuple::new(local, remote);
        UnpairedEnd {
            guest: uid,
            uid,
            cookie: number.into(),
            connected: true,
            tuple,
            seen: tuple,
            translated: true,
            space: Space::OWN,
            since: at(0),
        }
    }

    fn idle() -> Translation {
        Translation {
            conntrack: None,
            waiting: VecDeque::new(),
            due: at(0),
        }
    }

    /// As if the kernel could be asked.
    fn wait(translation: &mut Translation, uid: u32, ids: impl IntoIterator<Item = UnpairedId>) {
        translation
            .waiting
            .push_back((uid, ids.into_iter().collect()));
    }

    fn asked(translation: &mut Translation, pairing: &mut Pairing) -> Vec<u32> {
        let mut asked = Vec::new();
        translation.take_turns(pairing, at(0), &mut |end| {
            asked.push(end.uid);
            None
        });
        asked
    }

    #[test]
    fn a_few_at_a_time_and_the_users_take_turns() {
        let (mut translation, mut pairing) = (idle(), Pairing::default());
        let many: Vec<_> = (1..100)
            .map(|number| pairing.insert(end(1, number)))
            .collect();
        let few: Vec<_> = (1..3)
            .map(|number| pairing.insert(end(2, number)))
            .collect();
        wait(&mut translation, 1, many);
        wait(&mut translation, 2, few);
        assert_eq!(
            asked(&mut translation, &mut pairing),
            [1, 2, 1, 2, 1, 1, 1, 1]
        );
        assert_eq!(asked(&mut translation, &mut pairing), [1; MOST_AT_ONCE]);
    }

    #[test]
    fn who_is_gone_costs_no_question() {
        let (mut translation, mut pairing) = (idle(), Pairing::default());
        let last = pairing.insert(end(1, 7));
        wait(&mut translation, 1, (1000..1100).chain([last]));
        assert_eq!(asked(&mut translation, &mut pairing), [1]);
        wait(&mut translation, 1, 1000..100_000);
        assert!(asked(&mut translation, &mut pairing).is_empty());
        assert!(translation.next().is_some(), "not all of them in one go");
    }

    #[test]
    fn only_what_can_be_known_here_is_asked() {
        assert!(is_to_ask(&end(1, 1)));
        let silent = UnpairedEnd {
            translated: false,
            ..end(1, 1)
        };
        assert!(!is_to_ask(&silent), "its program does not want it");
        let loopback = |ip: [u8; 4]| Tuple::new((ip, 1).into(), (ip, 2).into());
        let local = UnpairedEnd {
            tuple: loopback([127, 0, 0, 1]),
            ..end(1, 1)
        };
        assert!(is_to_ask(&local));
    }

    /// The kernel's own answer, where it gives one.
    #[test]
    fn connections_that_nothing_translates_have_no_other_addresses() {
        if let Ok(mut conntrack) = Conntrack::open() {
            assert_eq!(other_end(&mut conntrack, &end(1, 1)), None);
        }
    }
}
