//! How two members meet: the one with the lower number connects to the other. Each says who it is, fetches the other's memory if
//! that is on this host, and gives the other a seat.

use std::rc::Rc;
use std::sync::Arc;

use super::again::Meeting;
use super::islands::Key;
use super::link::{Hello, Link, Stage};
use super::state::Agent;
use crate::group::member::Member;
use crate::group::memory::{SLOTS, is_ring_size};
use crate::group::near::fetch_member;
use crate::group::shared::lock;
use crate::group::wire::{NO_SLOT, Said};
use crate::names::{Event, Place};
use crate::run::spawn;

/// Who have said hello and are not known by name.
const MOST_EARLY: usize = 64;

impl Agent {
    /// What names tell.
    pub fn named(self: &Rc<Agent>, event: Event) {
        match event {
            Event::Appeared(place) if place.instance != self.number => self.appeared(place),
            Event::Appeared(_) => {}
            Event::Disappeared(place) => self.disappeared(&place),
        }
    }

    /// What becomes of the member the link tells.
    fn disappeared(&self, place: &Place) {
        let number = place.instance;
        self.places.borrow_mut().remove(&number);
        self.meetings.borrow_mut().remove(&number);
        if place.host.is_none() {
            self.gone.borrow_mut().remove(&number);
        }
    }

    /// It has been here, or we are about to leave.
    fn is_not_to_be_met(&self, number: u32) -> bool {
        self.leaves.get() || self.gone.borrow().contains(&number)
    }

    fn appeared(self: &Rc<Agent>, place: Place) {
        let number = place.instance;
        self.places.borrow_mut().insert(number, place);
        if self.member(number).is_some() || self.is_not_to_be_met(number) {
            return;
        }
        if self.number > number {
            let early = self.early.borrow_mut().remove(&number);
            if let Some(link) = early {
                link.place.set(Some(place));
                self.greet(&link);
            }
            return;
        }
        self.meetings
            .borrow_mut()
            .entry(number)
            .or_insert_with(Meeting::new);
        self.try_again();
    }

    /// Says hello to one that is registered.
    pub fn connect(self: &Rc<Agent>, number: u32) {
        let place = self.places.borrow().get(&number).copied();
        let Some(place) = place.filter(|_| !self.is_not_to_be_met(number)) else {
            self.meetings.borrow_mut().remove(&number);
            return;
        };
        let agent = self.clone();
        drop(spawn(async move {
            match agent.endpoint.connect(place.address).await {
                Ok(peer) => {
                    let link = agent.add_link(peer, Some(place));
                    agent.say_hello(&link, &place);
                    agent.has_said_hello(number, &link);
                }
                Err(_) => agent.not_connected(number),
            }
        }));
    }

    fn say_hello(&self, link: &Link, place: &Place) {
        let is_here = place.host.is_none();
        link.slot.set(match is_here {
            true => self.take_slot(),
            false => NO_SLOT,
        });
        link.say(Said::Hello {
            number: self.number,
            ring: self.shared.ring.size(),
            slot: link.slot.get(),
            // It is of no use elsewhere.
            ticket: self.ticket.filter(|_| is_here),
        });
    }

    pub fn hear_hello(self: &Rc<Agent>, link: &Rc<Link>, hello: Hello) -> Option<()> {
        let number = hello.number;
        if link.hello.get().is_some() || !is_ring_size(hello.ring) || number == self.number {
            return None;
        }
        if self.is_not_to_be_met(number) {
            return None;
        }
        link.hello.set(Some(hello));
        match link.place.get() {
            Some(place) if place.instance == number => self.greet(link),
            Some(_) => return None,
            // Who is to connect is agreed.
            None if number > self.number => return None,
            None => {
                let place = self.places.borrow().get(&number).copied();
                if place.is_some() {
                    link.place.set(place);
                    self.greet(link);
                } else if self.early.borrow().len() < MOST_EARLY {
                    let before = self.early.borrow_mut().insert(number, link.clone());
                    before.into_iter().for_each(|before| before.refuse());
                } else {
                    return None;
                }
            }
        }
        Some(())
    }

    /// It is a member, by its name and by its own word.
    fn greet(self: &Rc<Agent>, link: &Rc<Link>) {
        let (Some(place), Some(hello)) = (link.place.get(), link.hello.get()) else {
            return;
        };
        if self.member(hello.number).is_some() {
            return link.refuse();
        }
        self.members.borrow_mut().insert(hello.number, link.clone());
        self.meetings.borrow_mut().remove(&hello.number);
        link.stage.set(Stage::Greeted);
        if self.number > hello.number {
            self.say_hello(link, &place);
        }
        let ticket = hello.ticket.filter(|_| place.host.is_none());
        let fetched = ticket.and_then(|ticket| fetch_member(ticket, hello.ring));
        let has_slot = link.slot.get() != NO_SLOT;
        link.say(Said::Mapped(fetched.is_some() && has_slot));
        if let Some((near, ring)) = fetched {
            *link.near.borrow_mut() = Some(Arc::new(near));
            *link.ring.borrow_mut() = Some(ring);
        }
        self.ask_waiting(hello.number);
    }

    /// It can read our ring, or cannot: it gets what is sent from now on.
    pub fn hear_mapped(self: &Rc<Agent>, link: &Rc<Link>, mapped: bool) -> Option<()> {
        let (place, hello) = (link.place.get()?, link.hello.get()?);
        if link.stage.replace(Stage::Seated) != Stage::Greeted {
            return None;
        }
        let near = link.near.borrow().clone();
        let near = near.filter(|_| mapped && hello.slot < SLOTS);
        let is_near = near.is_some();
        let seat = near.map(|near| (near, hello.slot));
        let start = lock(&self.shared.seats).add(hello.number, seat);
        lock(&self.shared.members).push(member(&place));
        if is_near {
            link.say(Said::Feed {
                start,
                base: start,
                relay: None,
            });
            return Some(());
        }
        let key = place.host.map_or(Key::Alone(hello.number), Key::Host);
        self.give_relay(link, key, start);
        Some(())
    }

    /// A member of another host is told by whom it gets our messages.
    pub fn give_relay(&self, link: &Link, key: Key, start: u64) {
        let Some(number) = link.number() else {
            return;
        };
        let relay = self.islands.borrow_mut().add(key, number, start).relay;
        link.say(Said::Feed {
            start,
            base: start,
            relay: Some(relay),
        });
        link.wake_writer();
    }

    /// An island has lost its relay.
    pub fn elect(&self, key: Key) {
        let mut islands = self.islands.borrow_mut();
        let seats = lock(&self.shared.seats);
        let Some(island) = islands.elect(key, |number| seats.at(number)) else {
            return;
        };
        drop(seats);
        for number in &island.members {
            if let Some(link) = self.member(*number) {
                link.say(Said::Feed {
                    start: island.sent,
                    base: island.sent,
                    relay: Some(island.relay),
                });
            }
        }
    }
}

pub fn member(place: &Place) -> Member {
    Member {
        number: place.instance,
        pid: place.pid,
        host: place.host,
    }
}
