//! What a server knows of each peer that has called it: the calls that are being handled, and those that wait because there
//! are so many.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::error::RequestError;
use super::fate::Fate;
use crate::message::Peer;

pub struct Callers {
    peers: RefCell<HashMap<usize, Rc<Known>>>,
    /// Handlers that run at a time, for each peer.
    most: usize,
}

/// One peer.
struct Known {
    /// Held, so that no other peer has its key.
    peer: Peer,
    calls: RefCell<HashMap<u64, Rc<Fate>>>,
    busy: Cell<usize>,
    waiting: RefCell<VecDeque<(Rc<Fate>, Waker)>>,
}

impl Callers {
    pub fn new(most: usize) -> Callers {
        Callers {
            peers: RefCell::default(),
            most: most.max(1),
        }
    }

    /// A call has come. `None` if one of this number is there already.
    pub fn enter(&self, peer: &Peer, id: u64, fate: &Rc<Fate>) -> Option<Place> {
        let mut peers = self.peers.borrow_mut();
        let known = peers.entry(peer.key()).or_insert_with(|| {
            Rc::new(Known {
                peer: peer.clone(),
                calls: RefCell::default(),
                busy: Cell::new(0),
                waiting: RefCell::default(),
            })
        });
        let before = known.calls.borrow_mut().insert(id, fate.clone());
        if let Some(before) = before {
            known.calls.borrow_mut().insert(id, before);
            return None;
        }
        Some(Place {
            known: known.clone(),
            id,
            fate: fate.clone(),
            most: self.most,
            is_busy: Cell::new(false),
        })
    }

    /// The caller has dropped it.
    pub fn cancel(&self, peer: &Peer, id: u64) {
        let fate = {
            let peers = self.peers.borrow();
            let known = peers.get(&peer.key());
            known.and_then(|known| known.calls.borrow().get(&id).cloned())
        };
        if let Some(fate) = fate {
            fate.end(RequestError::Cancelled);
        }
    }

    pub fn gone(&self, peer: &Peer) {
        let Some(known) = self.peers.borrow_mut().remove(&peer.key()) else {
            return;
        };
        debug_assert!(known.peer == *peer);
        let calls: Vec<_> = known.calls.borrow().values().cloned().collect();
        for fate in calls {
            fate.end(RequestError::PeerGone);
        }
    }
}

/// A call's place among those of its peer.
pub struct Place {
    known: Rc<Known>,
    id: u64,
    fate: Rc<Fate>,
    most: usize,
    is_busy: Cell<bool>,
}

impl Place {
    /// Its handler may run. Until then its message is not taken, so that its credit holds the peer back.
    pub fn poll_turn(&self, task: &Context<'_>) -> Poll<()> {
        let busy = self.known.busy.get();
        if busy < self.most {
            self.known.busy.set(busy + 1);
            self.is_busy.set(true);
            return Poll::Ready(());
        }
        let waiter = (self.fate.clone(), task.waker().clone());
        let mut waiting = self.known.waiting.borrow_mut();
        match waiting
            .iter_mut()
            .find(|(fate, _)| Rc::ptr_eq(fate, &self.fate))
        {
            Some(known) => *known = waiter,
            None => waiting.push_back(waiter),
        }
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let known = &self.known;
        known.calls.borrow_mut().remove(&self.id);
        if self.is_busy.get() {
            known.busy.set(known.busy.get() - 1);
        }
        // One that was woken and does not come has to pass it on.
        if known.busy.get() >= self.most {
            return;
        }
        loop {
            let next = known.waiting.borrow_mut().pop_front();
            match next {
                Some((fate, _)) if fate.has_ended() => {}
                Some((_, waker)) => return waker.wake(),
                None => return,
            }
        }
    }
}
