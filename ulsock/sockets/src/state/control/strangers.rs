//! Who comes to our mailbox, and how much of our time and of our descriptors each gets.
//!
//! Anybody may come. Who claims a connection that is really between us, which the first look at its channel shows, may
//! stay; of all others a handful is kept, the latest, because a peer in another network namespace has to
//! [show itself](super::meet) before it can claim.

use std::sync::Arc;

use super::Control;
use rendezvous::channel::Channel;
use rendezvous::mailbox::Mailbox;
use rendezvous::pair::Pair;

/// Peer processes of one user that may share rings with us.
const MOST_PER_USER: usize = 4096;
/// Strangers of one user, and of all.
const MOST_STRANGERS: usize = 8;
const MOST_STRANGERS_OF_ALL: usize = 32;
/// Channels accepted at a look.
const MOST_KNOCKS: usize = 8;
/// Messages asked for at a look, from all; the next look goes on with whose turn it is then.
const MOST_MESSAGES: usize = 1024;

impl Control {
    /// Takes in new channels and what has come over the known ones; gives those that were looked at.
    pub fn check_mail(&mut self) -> Vec<Arc<Pair>> {
        self.let_in();
        let (count, turn) = (self.incoming.len(), self.turn);
        let (mut asked, mut looked_at) = (0, Vec::with_capacity(count));
        let in_turn = (0..count).map(|step| &self.incoming[(turn + step) % count]);
        for pair in in_turn {
            if asked >= MOST_MESSAGES {
                break;
            }
            asked += pair.receive_counted();
            looked_at.push(pair.clone());
        }
        // Another one is first next time, also if all had their turn.
        self.turn = (turn + looked_at.len() + 1) % count.max(1);
        self.incoming.retain(|pair| !pair.is_dead());
        looked_at
    }

    fn let_in(&mut self) {
        for _ in 0..MOST_KNOCKS {
            let Some(Ok(Some(channel))) = self.mailbox.as_ref().map(Mailbox::accept) else {
                return;
            };
            self.take_in(channel);
            // Those whose peers are gone keep a whole segment mapped.
            self.drop_retired();
        }
    }

    fn take_in(&mut self, channel: Channel) {
        let Ok(peer) = channel.peer() else { return };
        if self.makes_room_for(peer.uid) {
            self.incoming
                .extend(Pair::new(channel, self.shares.of(peer.uid)));
        }
    }

    /// One stranger goes, if need be: of the same user, or of the one who has sent the most.
    fn makes_room_for(&mut self, uid: u32) -> bool {
        let is_of_user = |pair: &&Arc<Pair>| pair.peer().uid == uid;
        if self.incoming.iter().filter(is_of_user).count() >= MOST_PER_USER {
            return false;
        }
        if self.strangers().filter(is_of_user).count() >= MOST_STRANGERS {
            self.turn_out(uid);
        } else if self.strangers().count() >= MOST_STRANGERS_OF_ALL {
            self.turn_out(self.most_frequent_stranger());
        }
        true
    }

    fn strangers(&self) -> impl Iterator<Item = &Arc<Pair>> {
        self.incoming.iter().filter(|pair| pair.is_stranger())
    }

    fn most_frequent_stranger(&self) -> u32 {
        let uids = || self.strangers().map(|pair| pair.peer().uid);
        let count = |uid: &u32| uids().filter(|other| other == uid).count();
        uids().max_by_key(count).unwrap_or_default()
    }

    /// The one who has been here longest and has shown nothing.
    fn turn_out(&mut self, uid: u32) {
        let is_one = |pair: &Arc<Pair>| pair.is_stranger() && pair.peer().uid == uid;
        if let Some(oldest) = self.incoming.iter().position(is_one) {
            self.incoming.remove(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rendezvous::message::Message;
    use rendezvous::rundir::scratch::Scratch;

    fn control(dir: &Scratch) -> Control {
        shm::waiter::begin_for_tests();
        let mut control = Control::new(dir.duplicate().unwrap());
        control.mailbox().unwrap();
        control
    }

    fn knock(control: &Control, dir: &Scratch) -> Option<Channel> {
        Channel::connect(dir, control.mailbox.as_ref()?.name()).ok()
    }

    #[test]
    fn of_strangers_the_latest_few_are_kept() {
        let dir = Scratch::new();
        let mut control = control(&dir);
        let mut knocks = Vec::new();
        for _ in 0..50 {
            knocks.extend(knock(&control, &dir));
            control.check_mail();
            assert!(control.incoming.len() <= MOST_STRANGERS);
        }
        assert!(
            knocks[..knocks.len() - MOST_STRANGERS]
                .iter()
                .all(Channel::has_ended)
        );
        assert!(
            !knocks
                .iter()
                .rev()
                .take(MOST_STRANGERS)
                .any(Channel::has_ended)
        );
    }

    #[test]
    fn who_is_known_stays() {
        let dir = Scratch::new();
        let mut control = control(&dir);
        let first = knock(&control, &dir).unwrap();
        control.check_mail()[0].prove();
        let knocks: Vec<_> = (0..50).map(|_| knock(&control, &dir)).collect();
        for _ in &knocks {
            control.check_mail();
        }
        assert!(!first.has_ended());
        assert_eq!(control.incoming.len(), 1 + MOST_STRANGERS);
    }

    #[test]
    fn a_look_takes_in_a_few_and_the_rest_waits() {
        let dir = Scratch::new();
        let mut control = control(&dir);
        let knocks: Vec<_> = (0..20).filter_map(|_| knock(&control, &dir)).collect();
        assert_eq!(control.check_mail().len(), MOST_KNOCKS);
        control.check_mail().iter().for_each(|pair| pair.prove());
        control.check_mail().iter().for_each(|pair| pair.prove());
        assert_eq!(knocks.iter().filter(|knock| !knock.has_ended()).count(), 12);
    }

    /// Those who write without end have their turn, and so has everybody else.
    #[test]
    fn a_flood_does_not_keep_others_from_being_heard() {
        let dir = Scratch::new();
        let mut control = control(&dir);
        let floods: Vec<_> = (0..8).filter_map(|_| knock(&control, &dir)).collect();
        control.check_mail().iter().for_each(|pair| pair.prove());
        let quiet = knock(&control, &dir).unwrap();
        control.check_mail();
        let claim = Message::Claim {
            offer_cookie: 1,
            claim_cookie: 1,
            segment: 0,
            conn: 0,
        };
        quiet.send(&claim, None).unwrap();
        let mut looks = 0;
        let heard = loop {
            floods
                .iter()
                .for_each(|flood| while flood.send(&claim, None).is_ok() {});
            let looked_at = control.check_mail();
            let claims = |pair: &Arc<Pair>| std::iter::from_fn(|| pair.next_claim()).count();
            let counts: Vec<_> = looked_at.iter().map(claims).collect();
            assert!(counts.iter().sum::<usize>() <= MOST_MESSAGES + 256);
            looks += 1;
            let mut pairs = looked_at.iter().zip(counts);
            if pairs.any(|(pair, count)| pair.is_stranger() && count == 1) || looks > 100 {
                break looks;
            }
        };
        assert!(heard <= 3, "{heard} looks");
    }
}
