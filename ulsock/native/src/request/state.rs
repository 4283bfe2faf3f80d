//! What the requests of an endpoint share: calls that wait for their replies, services, peers that have called, deadlines.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use slab::Slab;

use super::call::Call;
use super::error::RequestError;
use super::fate::Fate;
use super::header::{CALL, CANCEL};
use super::peers::Callers;
use super::requests::Limits;
use super::serve::Service;
use super::timer::{Deadline, Timers};
use crate::message::{Layer, Peer, Tasks};

pub struct State {
    pub limits: Limits,
    pub callers: Callers,
    calls: RefCell<Slab<Rc<Call>>>,
    /// Calls that were made: numbers are not used again soon, so that a late reply finds nobody.
    made: Cell<u32>,
    services: RefCell<HashMap<u16, Rc<dyn Service>>>,
    timers: Rc<Timers>,
    /// Somebody looks after deadlines.
    kept: Cell<bool>,
    tasks: Tasks,
}

impl State {
    pub fn new(limits: Limits, tasks: Tasks) -> State {
        State {
            callers: Callers::new(limits.calls),
            limits,
            calls: RefCell::default(),
            made: Cell::new(0),
            services: RefCell::default(),
            timers: Rc::default(),
            kept: Cell::new(false),
            tasks,
        }
    }

    pub fn add_service(&self, number: u16, service: Rc<dyn Service>) {
        let before = self.services.borrow_mut().insert(number, service);
        drop(before);
    }

    pub fn service(&self, number: u16) -> Option<Rc<dyn Service>> {
        self.services.borrow().get(&number).cloned()
    }

    /// A call gets its number.
    pub fn add_call(&self, make: impl FnOnce(u64) -> Call) -> Result<Rc<Call>, RequestError> {
        let mut calls = self.calls.borrow_mut();
        let place = calls.vacant_entry();
        let at = u32::try_from(place.key()).map_err(|_| RequestError::TooMany)?;
        let made = self.made.get().wrapping_add(1);
        self.made.set(made);
        let call = Rc::new(make(u64::from(made) << 32 | u64::from(at)));
        place.insert(call.clone());
        Ok(call)
    }

    /// The call that this peer replies to, if it is still wanted.
    pub fn call(&self, id: u64, peer: &Peer) -> Option<Rc<Call>> {
        let calls = self.calls.borrow();
        let call = calls.get((id & u64::from(u32::MAX)) as usize)?;
        (call.id == id && call.peer == *peer).then(|| call.clone())
    }

    pub fn remove_call(&self, id: u64) {
        let at = (id & u64::from(u32::MAX)) as usize;
        let removed = self.calls.borrow_mut().try_remove(at);
        drop(removed);
    }

    /// Tells the peer that nobody waits for its reply.
    pub fn cancel(&self, peer: Peer, id: u64) {
        self.tasks
            .spawn(async move { peer.send(CANCEL, &id.to_le_bytes()).await });
    }

    fn calls_of(&self, peer: &Peer) -> Vec<Rc<Call>> {
        let calls = self.calls.borrow();
        let of_peer = calls.iter().filter(|(_, call)| call.peer == *peer);
        of_peer.map(|(_, call)| call.clone()).collect()
    }

    pub fn deadline(&self, at: Instant, fate: &Rc<Fate>) -> io::Result<Deadline> {
        let deadline = self.timers.add(at, fate)?;
        if !self.kept.replace(true) {
            let timers = self.timers.clone();
            self.tasks
                .spawn(async move { Ok(poll_fn(|task| timers.poll(task)).await?) });
        }
        Ok(deadline)
    }
}

impl Layer for State {
    fn gone(&self, peer: &Peer) {
        self.callers.gone(peer);
        for call in self.calls_of(peer) {
            call.peer_is_gone();
        }
    }

    fn refused(&self, peer: &Peer, number: u16) {
        if number == CALL {
            for call in self.calls_of(peer) {
                call.fate.end(RequestError::NoService(call.service));
            }
        }
    }

    /// Handlers may hold what holds this.
    fn ended(&self) {
        let services = self.services.take();
        drop(services);
    }
}
