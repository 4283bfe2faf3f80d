//! The regions of an exporter, which its thread and those of the program share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::bell::Bell;
use super::error::MemoryError;
use super::orders::Orders;
use super::owner::{Owner, lock};
use crate::share::Secret;
use crate::start::generation;

/// What the exporter's thread is asked to do.
pub enum Order {
    Revoke(u32),
    End,
}

pub struct Registry {
    pub address: SocketAddr,
    pub orders: Orders<Order>,
    regions: Mutex<HashMap<u32, Arc<Owner>>>,
    next: AtomicU32,
    generation: u32,
}

impl Registry {
    pub fn new(address: SocketAddr) -> Registry {
        Registry {
            address,
            orders: Orders::new(),
            regions: Mutex::default(),
            next: AtomicU32::new(1),
            generation: generation(),
        }
    }

    /// In a child of fork nobody serves, and a lock may be held by a thread that is not there.
    pub fn is_of_this_process(&self) -> bool {
        self.generation == generation()
    }

    pub fn add(&self, size: usize, bell: &Arc<Bell>) -> Result<Arc<Owner>, MemoryError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let secret = Secret::new()?;
        let owner = Owner::new(number, secret.0, size, bell)?;
        lock(&self.regions).insert(number, owner.clone());
        Ok(owner)
    }

    pub fn find(&self, number: u32, secret: &[u8; 16]) -> Option<Arc<Owner>> {
        let owner = lock(&self.regions).get(&number).cloned()?;
        // In the same time wherever they differ.
        let pairs = owner.secret.iter().zip(secret);
        let differ = pairs.fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        (differ == 0).then_some(owner)
    }

    pub fn revoke(&self, number: u32) {
        lock(&self.regions).remove(&number);
        self.orders.push(Order::Revoke(number));
    }
}

/// The exporter's thread ends when nobody holds this any more.
pub struct Keeper(pub Arc<Registry>);

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.0.is_of_this_process() {
            self.0.orders.push(Order::End);
        }
    }
}
