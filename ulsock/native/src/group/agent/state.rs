//! What the group's thread knows: the others, by what names say and by the links to them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;

use netstack::broadcast::Rung;

use super::again::{Again, Meeting};
use super::feeds::{Feed, Relay};
use super::islands::Islands;
use super::link::{Link, Stage};
use crate::group::member::Member;
use crate::group::memory::{Ring, SLOTS};
use crate::group::shared::{Change, Over, Shared, lock, ring_bell};
use crate::group::wire::{CHUNK, LONGEST, NO_SLOT, Said};
use crate::message::{Endpoint, Incoming, Layer, MessageError, Peer};
use crate::names::Place;
use crate::run::spawn;
use crate::share;

/// All that members say goes to this handler.
const HANDLER: u16 = 0xff20;

/// Members that are remembered when they are gone.
const MOST_GONE: usize = 1 << 16;

pub struct Agent {
    pub shared: Arc<Shared>,
    pub number: u32,
    pub ticket: Option<[u8; share::LEN]>,
    pub endpoint: Endpoint,
    /// Who is registered.
    pub places: RefCell<HashMap<u32, Place>>,
    /// To whom we connect, until they are members.
    pub meetings: RefCell<HashMap<u32, Meeting>>,
    pub again: Again,
    /// Who was told of as over, and does not come back by itself while its name is there.
    pub gone: RefCell<HashSet<u32>>,
    /// Nobody new is to come.
    pub leaves: Cell<bool>,
    /// By the keys of their peers.
    pub links: RefCell<HashMap<usize, Rc<Link>>>,
    /// Members, by number.
    pub members: RefCell<HashMap<u32, Rc<Link>>>,
    /// Who have said hello before names told of them.
    pub early: RefCell<HashMap<u32, Rc<Link>>>,
    slots: RefCell<Vec<u16>>,
    pub islands: RefCell<Islands>,
    pub feeds: RefCell<HashMap<u32, Feed>>,
    pub relays: RefCell<HashMap<u32, Relay>>,
    /// Who has asked for the ring of which sender.
    pub asked: RefCell<Vec<(u32, u32)>>,
    /// Of our own sender.
    pub sender_rung: RefCell<Rung>,
}

impl Agent {
    pub fn new(
        shared: Arc<Shared>,
        number: u32,
        ticket: Option<[u8; share::LEN]>,
        endpoint: Endpoint,
        again: Again,
    ) -> Rc<Agent> {
        let agent = Rc::new(Agent {
            shared,
            number,
            ticket,
            endpoint,
            places: RefCell::default(),
            meetings: RefCell::default(),
            again,
            gone: RefCell::default(),
            leaves: Cell::new(false),
            links: RefCell::default(),
            members: RefCell::default(),
            early: RefCell::default(),
            slots: RefCell::new((0..SLOTS).collect()),
            islands: RefCell::default(),
            feeds: RefCell::default(),
            relays: RefCell::default(),
            asked: RefCell::default(),
            sender_rung: RefCell::default(),
        });
        let layer: Weak<Agent> = Rc::downgrade(&agent);
        agent.endpoint.add_layer(layer.clone());
        agent.endpoint.handle_own(HANDLER, move |message| {
            let agent = layer.clone();
            async move { arrived(&agent, message).await }
        });
        agent
    }

    /// A link to or from another one; whatever is said there is sent from now on.
    pub fn add_link(self: &Rc<Agent>, peer: Peer, place: Option<Place>) -> Rc<Link> {
        let link = Rc::new(Link::new(peer, place));
        let key = link.peer.key();
        self.links.borrow_mut().insert(key, link.clone());
        drop(spawn(write(self.clone(), link.clone())));
        link
    }

    pub fn member(&self, number: u32) -> Option<Rc<Link>> {
        self.members.borrow().get(&number).cloned()
    }

    pub fn take_slot(&self) -> u16 {
        let slot = self.slots.borrow_mut().pop().unwrap_or(NO_SLOT);
        if slot != NO_SLOT {
            self.shared.page.cursor(slot).begin(0);
        }
        slot
    }

    pub fn free_slot(&self, slot: u16) {
        if slot < SLOTS {
            self.slots.borrow_mut().push(slot);
        }
    }

    /// It gets nothing from now on.
    pub fn unseat(&self, number: u32) {
        lock(&self.shared.seats).remove(number);
        let is_another = |member: &Member| member.number != number;
        lock(&self.shared.members).retain(is_another);
        ring_bell(&self.shared.sender_bell);
        let orphans = self.islands.borrow_mut().remove(number);
        if let Some(key) = orphans {
            self.elect(key);
        }
    }

    /// The next thing to be said: data only if there is nothing else.
    fn next_said(&self, link: &Link) -> Option<Said> {
        let said = link.next_said();
        let said = said.or_else(|| self.next_data(link.number()?));
        said.or_else(|| link.take_farewell())
    }

    fn next_data(&self, relay: u32) -> Option<Said> {
        let tail = lock(&self.shared.seats).tail();
        let most = (CHUNK as u64).min(self.shared.ring.size() / 4);
        let (at, len) = self.islands.borrow_mut().next_chunk(relay, tail, most)?;
        let mut bytes = vec![0; len];
        Ring::own(&self.shared.ring).read(at, &mut bytes);
        // If all who need these bytes are being put out, the sender has perhaps written others in their place.
        let tail = lock(&self.shared.seats).tail();
        if tail - at > self.shared.ring.size() {
            return None;
        }
        Some(Said::Data { at, bytes })
    }

    /// The end of a link.
    fn link_ended(&self, link: &Rc<Link>) {
        link.end();
        self.free_slot(link.slot.replace(NO_SLOT));
        self.not_met(link);
        let Some(number) = link.number() else {
            return;
        };
        let is_this = |other: &Rc<Link>| Rc::ptr_eq(other, link);
        if self.early.borrow().get(&number).is_some_and(is_this) {
            self.early.borrow_mut().remove(&number);
        }
        if !self.member(number).is_some_and(|other| is_this(&other)) {
            return;
        }
        self.members.borrow_mut().remove(&number);
        match link.stage.get() {
            // What it had sent to this host is in its ring. If that is less than it has said, no more will come.
            Stage::Left if link.near.borrow().is_some() => {
                let over = Over::Failed;
                self.shared.change(Change::Over { number, over });
            }
            Stage::Left => {}
            _ => {
                self.unseat(number);
                self.tell_over(link, Over::Failed);
            }
        }
        self.forget_relay(number);
        self.forget_sender(number);
    }

    pub fn tell_over(&self, link: &Link, over: Over) {
        if let (Some(number), true) = (link.number(), link.is_fed.replace(false)) {
            self.shared.change(Change::Over { number, over });
            self.note_gone(link, number);
        }
    }

    fn note_gone(&self, link: &Link, number: u32) {
        let mut gone = self.gone.borrow_mut();
        // A name of this host that has disappeared does not appear again.
        let is_here = link.place.get().is_some_and(|place| place.host.is_none());
        if is_here && !self.places.borrow().contains_key(&number) {
            return;
        }
        if gone.len() >= MOST_GONE {
            gone.clear();
        }
        gone.insert(number);
    }
}

/// Sends what is said on a link, one after the other.
async fn write(agent: Rc<Agent>, link: Rc<Link>) -> Result<(), MessageError> {
    loop {
        let said = poll_fn(|task| {
            if link.is_over() {
                return Poll::Ready(None);
            }
            match agent.next_said(&link) {
                Some(said) => Poll::Ready(Some(said)),
                None => {
                    link.wait(task);
                    Poll::Pending
                }
            }
        })
        .await;
        let Some(said) = said else {
            return Ok(());
        };
        let bytes = link.encode(&said);
        link.peer.send(HANDLER, &bytes).await?;
        // Who has heard it closes the link: if we did, what is on its way to us would be refused, and that would take back what
        // we have said.
        if matches!(said, Said::Bye { .. }) {
            return Ok(());
        }
    }
}

async fn arrived(agent: &Weak<Agent>, mut message: Incoming) -> Result<(), MessageError> {
    let bytes = message.read_rest(LONGEST).await?;
    let peer = message.peer();
    drop(message);
    let Some(agent) = agent.upgrade() else {
        return Ok(());
    };
    let known = agent.links.borrow().get(&peer.key()).cloned();
    let link = known.unwrap_or_else(|| agent.add_link(peer, None));
    match link.hear(&bytes) {
        None => link.refuse(),
        Some(all) => {
            for said in all {
                if link.is_over() || agent.heard(&link, said).is_none() {
                    link.refuse();
                }
            }
        }
    }
    Ok(())
}

impl Layer for Agent {
    fn gone(&self, peer: &Peer) {
        let link = self.links.borrow_mut().remove(&peer.key());
        if let Some(link) = link {
            self.link_ended(&link);
        }
    }

    fn refused(&self, peer: &Peer, number: u16) {
        if number == HANDLER {
            peer.fail(MessageError::NoHandler(number));
        }
    }

    fn ended(&self) {}
}
