//! What lies on top of an endpoint's messages, within this crate: it has handler numbers of its own, tasks that run as handlers
//! do, and hears when a peer is gone.

use std::cell::RefCell;
use std::future::Future;
use std::rc::{Rc, Weak};

use super::error::MessageError;
use super::handlers::Handlers;
use super::peer::Peer;

/// Handler numbers from here on are ulsock's own.
pub const RESERVED: u16 = 0xff00;

pub trait Layer {
    /// A peer is gone, and handlers were started for all that has come of it.
    fn gone(&self, peer: &Peer);

    /// A peer has no handler of this number, which is one of ulsock's own.
    fn refused(&self, peer: &Peer, number: u16);

    /// The endpoint has ended.
    fn ended(&self);
}

#[derive(Default)]
pub struct Layers(RefCell<Vec<Weak<dyn Layer>>>);

impl Layers {
    pub fn add(&self, layer: Weak<dyn Layer>) {
        self.0.borrow_mut().push(layer);
    }

    pub fn gone(&self, peer: &Peer) {
        self.each(|layer| layer.gone(peer));
    }

    pub fn refused(&self, peer: &Peer, number: u16) {
        self.each(|layer| layer.refused(peer, number));
    }

    pub fn ended(&self) {
        self.each(|layer| layer.ended());
    }

    fn each(&self, tell: impl Fn(&dyn Layer)) {
        let all = self.0.borrow().clone();
        for layer in all.iter().filter_map(Weak::upgrade) {
            tell(&*layer);
        }
    }
}

/// Runs futures of an endpoint's own.
pub struct Tasks(Weak<Handlers>);

impl Tasks {
    pub fn new(handlers: &Rc<Handlers>) -> Tasks {
        Tasks(Rc::downgrade(handlers))
    }

    /// Runs it while somebody extracts. What it sends goes in the class of replies.
    pub fn spawn(&self, future: impl Future<Output = Result<(), MessageError>> + 'static) {
        if let Some(handlers) = self.0.upgrade() {
            handlers.spawn(future);
        }
    }
}
