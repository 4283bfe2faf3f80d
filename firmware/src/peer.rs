//! A peer: the link to it, the frames' ways there, and the endpoints that it serves.

use alloc::vec::Vec;

use netstack::crc32c::Crc;
use netstack::link::window::Window;
use netstack::link::{Frozen, Id, Link, Streams};
use netstack::time::Instant;
use netstack::wire::frame::Route;

use crate::endpoint::Endpoint;
use crate::segment::Segment;

pub struct Peer<S, W> {
    pub link: Link<W>,
    /// One for each way of the link.
    pub routes: Vec<Route>,
    pub rings: Rings<S>,
    /// It waits for its turn to transmit.
    pub is_queued: bool,
    /// When it has to be called even if nothing happens.
    pub due: Option<Instant>,
    /// When it is called according to the agenda: then, or earlier.
    pub noted: Option<Instant>,
}

impl<S: Segment, W: Window + Clone> Peer<S, W> {
    pub fn new(link: Link<W>, routes: Vec<Route>) -> Peer<S, W> {
        Peer {
            link,
            routes,
            rings: Rings {
                endpoints: Vec::new(),
                tripped: Vec::new(),
            },
            is_queued: false,
            due: None,
            noted: None,
        }
    }
}

/// The endpoints of one peer, as its link sees them.
pub struct Rings<S> {
    /// By the index of their ids.
    endpoints: Vec<Option<Endpoint<S>>>,
    /// Those whose bells are to be rung.
    pub tripped: Vec<Id>,
}

impl<S: Segment> Rings<S> {
    pub fn insert(&mut self, endpoint: Endpoint<S>) {
        let index = endpoint.id.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, || None);
        }
        self.endpoints[index] = Some(endpoint);
    }

    #[inline]
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Endpoint<S>> {
        let endpoint = self.endpoints.get_mut(id.index())?.as_mut()?;
        (endpoint.id == id).then_some(endpoint)
    }

    pub fn remove(&mut self, id: Id) -> Option<Endpoint<S>> {
        self.get_mut(id)?;
        self.endpoints[id.index()].take()
    }
}

impl<S: Segment> Streams for Rings<S> {
    #[inline]
    fn fetch(&mut self, id: Id, offset: u64, into: &mut [u8], crc: Crc) -> Crc {
        let Some(endpoint) = self.get_mut(id) else {
            return crc;
        };
        endpoint.fetch(offset, into, crc)
    }

    #[inline]
    fn place(&mut self, id: Id, offset: u64, bytes: &[u8], crc: Crc) -> Crc {
        let Some(endpoint) = self.get_mut(id) else {
            return crc;
        };
        endpoint.place(offset, bytes, crc)
    }

    #[inline]
    fn publish(&mut self, id: Id, offset: u64, ended: bool) -> Result<(), Frozen> {
        let endpoint = self.get_mut(id).ok_or(Frozen)?;
        if endpoint.publish(offset, ended).map_err(|_| Frozen)? {
            self.tripped.push(id);
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, id: Id, offset: u64) {
        let Some(endpoint) = self.get_mut(id) else {
            return;
        };
        if endpoint.release(offset) {
            self.tripped.push(id);
        }
    }
}
