//! What members say once they know each other. `None` is what no honest member says: the link is closed.

use std::rc::Rc;
use std::time::Instant;

use super::again::ANOTHER;
use super::feeds::{Feed, Relay};
use super::islands::Key;
use super::link::{Hello, Link, Stage};
use super::meet::member;
use super::state::Agent;
use crate::group::memory::Ring;
use crate::group::near::fetch_ring;
use crate::group::shared::{Change, Over, Says, lock, ring_bell};
use crate::group::wire::{NO_SLOT, Said};
use crate::message::MessageError;
use crate::share;

/// Askers whose question cannot be answered yet.
const MOST_ASKED: usize = 1024;

impl Agent {
    pub fn heard(self: &Rc<Agent>, link: &Rc<Link>, said: Said) -> Option<()> {
        if let Said::Hello {
            number,
            ring,
            slot,
            ticket,
        } = said
        {
            let hello = Hello {
                number,
                ring,
                slot,
                ticket,
            };
            return self.hear_hello(link, hello);
        }
        let number = link.number()?;
        if link.stage.get() == Stage::Left {
            return None;
        }
        match said {
            Said::Hello { .. } => return None,
            Said::Mapped(mapped) => return self.hear_mapped(link, mapped),
            Said::Feed { start, base, relay } => match relay {
                None => return self.feed_directly(link, start),
                Some(relay) => return self.feed_by(link, start, base, relay),
            },
            Said::Taken(at) => return self.hear_taken(number, at),
            Said::Data { at, bytes } => return self.relay(number, at, &bytes),
            Said::Where { sender } => self.answer(link, sender),
            Said::Here { sender, ticket } => self.found(number, sender, ticket),
            Said::Alone => self.set_apart(link),
            Said::Over { sender } => self.drained(number, sender),
            Said::Bye { end } => {
                link.stage.set(Stage::Left);
                self.unseat(number);
                self.tell_over(link, Over::Left(end));
                link.peer.fail(MessageError::PeerGone);
            }
        }
        Some(())
    }

    /// The sender's own ring is to be read.
    fn feed_directly(&self, link: &Rc<Link>, start: u64) -> Option<()> {
        let place = link.place.get()?;
        let (sender, ring) = (link.near.borrow().clone()?, link.ring.take()?);
        let slot = link.slot.replace(NO_SLOT);
        if slot == NO_SLOT || link.is_fed.replace(true) {
            return None;
        }
        self.shared.page.cursor(slot).begin(start);
        self.shared.change(Change::Joined {
            member: member(&place),
            start,
            says: Says::Near { slot, sender },
        });
        let number = place.instance;
        self.shared.change(Change::Ring { number, ring });
        Some(())
    }

    /// A relay's ring is to be read, perhaps our own.
    fn feed_by(self: &Rc<Agent>, link: &Rc<Link>, start: u64, base: u64, relay: u32) -> Option<()> {
        let (place, hello) = (link.place.get()?, link.hello.get()?);
        let number = hello.number;
        if !link.is_fed.replace(true) {
            let feed = Feed::new(start, hello.ring, relay);
            let says = Says::Far(feed.taken.clone());
            self.feeds.borrow_mut().insert(number, feed);
            self.shared.change(Change::Joined {
                member: member(&place),
                start,
                says,
            });
        }
        self.feeds
            .borrow_mut()
            .get_mut(&number)?
            .change_relay(relay);
        match relay == self.number {
            true if !link.may_make_us_relay() => return None,
            true => self.become_relay(link, number, base, hello.ring),
            false => self.ask(number, relay),
        }
        Some(())
    }

    fn become_relay(&self, link: &Link, number: u32, base: u64, size: u64) {
        // Without memory there is no way on with this sender.
        let Some(relay) = Relay::new(base, size) else {
            return link.refuse();
        };
        let (ring, ticket) = (Ring::own(&relay.ring), relay.ticket());
        self.relays.borrow_mut().insert(number, relay);
        self.shared.change(Change::Ring { number, ring });
        self.answer_all(number, ticket);
    }

    /// All who wait for the ring of this sender.
    fn answer_all(&self, sender: u32, ticket: [u8; share::LEN]) {
        let mut asked = self.asked.borrow_mut();
        asked.retain(|(asker, wanted)| {
            if *wanted != sender {
                return true;
            }
            if let Some(link) = self.member(*asker) {
                link.say(Said::Here { sender, ticket });
            }
            false
        });
    }

    fn ask(&self, sender: u32, relay: u32) {
        // Who is not known yet will be, or the sender names another one.
        let Some(link) = self.member(relay) else {
            return self.wait_for_another(relay);
        };
        match (link.near.borrow().is_some(), self.member(sender)) {
            (true, _) => {
                if let Some(feed) = self.feeds.borrow_mut().get_mut(&sender) {
                    feed.is_asked = true;
                }
                link.say(Said::Where { sender });
            }
            (false, Some(sender)) => sender.say(Said::Alone),
            (false, None) => {}
        }
    }

    /// A relay of live senders is no member here. Perhaps they do not know: it may live, but have put us out.
    fn wait_for_another(&self, relay: u32) {
        let until = Instant::now() + ANOTHER;
        for feed in self.feeds.borrow_mut().values_mut() {
            if feed.relay == relay && feed.is_live {
                feed.lost_until = Some(until);
                self.again.at(until);
            }
        }
    }

    /// A relay that some feeds wait for is known now.
    pub fn ask_waiting(&self, relay: u32) {
        let waiting: Vec<u32> = {
            let feeds = self.feeds.borrow();
            let waiting = feeds.iter().filter(|(_, feed)| feed.relay == relay);
            waiting.map(|(sender, _)| *sender).collect()
        };
        for sender in waiting {
            self.ask(sender, relay);
        }
    }

    fn answer(&self, link: &Link, sender: u32) {
        let ticket = self.relays.borrow().get(&sender).map(Relay::ticket);
        let is_known = self.member(sender).is_some();
        let mut asked = self.asked.borrow_mut();
        match (ticket, link.number()) {
            (Some(ticket), _) => link.say(Said::Here { sender, ticket }),
            (None, Some(asker)) if is_known && asked.len() < MOST_ASKED => {
                asked.push((asker, sender));
            }
            (None, _) => link.say(Said::Here {
                sender,
                ticket: [0; share::LEN],
            }),
        }
    }

    /// A relay has told where its ring is.
    fn found(&self, relay: u32, sender: u32, ticket: [u8; share::LEN]) {
        let size = match self.feeds.borrow_mut().get_mut(&sender) {
            Some(feed) if feed.relay == relay && feed.is_asked => {
                feed.is_asked = false;
                feed.size
            }
            _ => return,
        };
        match (fetch_ring(ticket, size), self.member(sender)) {
            (Some(ring), _) => self.shared.change(Change::Ring {
                number: sender,
                ring,
            }),
            (None, Some(link)) => link.say(Said::Alone),
            (None, None) => self.lose(sender),
        }
    }

    /// Nothing more can come of a sender that is gone.
    fn lose(&self, number: u32) {
        self.feeds.borrow_mut().remove(&number);
        let over = Over::Failed;
        self.shared.change(Change::Over { number, over });
    }

    /// A relay has got all that comes of a sender.
    fn drained(&self, relay: u32, sender: u32) {
        let is_lost = match self.feeds.borrow_mut().get_mut(&sender) {
            Some(feed) if feed.relay == relay => {
                feed.is_drained = true;
                !feed.is_live
            }
            _ => false,
        };
        if is_lost {
            self.lose(sender);
        }
    }

    /// It cannot read the relay of its host.
    fn set_apart(self: &Rc<Agent>, link: &Rc<Link>) {
        let Some(number) = link.number() else {
            return;
        };
        let taken = lock(&self.shared.seats).at(number);
        let Some(taken) = taken else {
            return;
        };
        let orphans = self.islands.borrow_mut().remove(number);
        if let Some(key) = orphans {
            self.elect(key);
        }
        self.give_relay(link, Key::Alone(number), taken);
    }

    /// One that does not read our ring has come so far with our messages.
    fn hear_taken(&self, number: u32, at: u64) -> Option<()> {
        if !lock(&self.shared.seats).hear(number, at) {
            return None;
        }
        let room = &self.shared.ring.head().room;
        if room.must_be_rung(&mut self.sender_rung.borrow_mut(), at) {
            ring_bell(&self.shared.sender_bell);
        }
        Some(())
    }

    /// Bytes of a sender on another host, for all of this one.
    fn relay(&self, sender: u32, at: u64, bytes: &[u8]) -> Option<()> {
        let mut relays = self.relays.borrow_mut();
        let relay = relays.get_mut(&sender)?;
        let tail = relay.write(at, bytes)?;
        let rest = self.shared.page.rest();
        if rest.must_be_rung(&mut relay.own_rung, tail) {
            ring_bell(&self.shared.receiver_bell);
        }
        for (number, link) in &*self.members.borrow() {
            let rung = relay.rung.entry(*number).or_default();
            if let Some(near) = &*link.near.borrow()
                && near.page.rest().must_be_rung(rung, tail)
            {
                let _ = near.receiver_bell.ring();
            }
        }
        Some(())
    }

    /// A member is gone that may have relayed something to us.
    pub fn forget_relay(&self, number: u32) {
        self.asked
            .borrow_mut()
            .retain(|(asker, _)| *asker != number);
        for relay in self.relays.borrow_mut().values_mut() {
            relay.rung.remove(&number);
        }
        let lost: Vec<u32> = {
            let feeds = self.feeds.borrow();
            let all = feeds.iter();
            let lost = all.filter(|(_, feed)| feed.relay == number && !feed.is_live);
            lost.map(|(sender, _)| *sender).collect()
        };
        lost.into_iter().for_each(|sender| self.lose(sender));
        self.wait_for_another(number);
    }

    /// A sender is gone: what is in the rings of relays can still be read, and a relay may still get some of it.
    pub fn forget_sender(&self, number: u32) {
        let is_lost = match self.feeds.borrow_mut().get_mut(&number) {
            Some(feed) => {
                feed.is_live = false;
                let relay_lives = feed.relay != self.number && self.member(feed.relay).is_some();
                feed.is_drained || !relay_lives
            }
            None => false,
        };
        if self.relays.borrow_mut().remove(&number).is_some() {
            for link in self.members.borrow().values() {
                if link.near.borrow().is_some() {
                    link.say(Said::Over { sender: number });
                }
            }
        }
        self.answer_all(number, [0; share::LEN]);
        if is_lost {
            self.lose(number);
        }
    }
}
