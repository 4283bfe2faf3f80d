//! An exporter: a thread that importers connect to, and that applies the writes of those who do not share the memory.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;

use super::answer::Answer;
use super::error::MemoryError;
use super::queue::EventQueue;
use super::region::Region;
use super::registry::{Keeper, Order, Registry};
use super::serve::Importers;
use crate::message::Endpoint;
use crate::run::{Loop, spawn};
use crate::start::{generation, spawn_thread};

/// Exports regions at an address. It goes on as long as this, or one of its regions, is held.
pub struct Exporter {
    keeper: Arc<Keeper>,
    generation: u32,
}

impl Exporter {
    pub fn bind(at: impl ToSocketAddrs) -> Result<Exporter, MemoryError> {
        let at: Vec<SocketAddr> = at.to_socket_addrs()?.collect();
        let begun = Answer::new();
        let told = begun.clone();
        spawn_thread("ulsock-memory", move || match begin(&at) {
            Ok((run, endpoint, registry)) => {
                told.give(Ok(registry.clone()));
                serve(run, endpoint, registry);
            }
            Err(error) => told.give(Err(error)),
        })?;
        let registry = begun.wait()?;
        Ok(Exporter {
            keeper: Arc::new(Keeper(registry)),
            generation: generation(),
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.keeper.0.address
    }

    /// Makes a region of so many bytes, all zero, whose wires report to this queue. Its memory is taken from the system now.
    pub fn export(&self, size: usize, queue: &EventQueue) -> Result<Region, MemoryError> {
        if self.generation != generation() {
            return Err(MemoryError::Forked);
        }
        let owner = self.keeper.0.add(size, queue.bell())?;
        Ok(Region::new(owner, self.keeper.clone()))
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exporter({})", self.local_addr())
    }
}

type Begun = (Loop, Rc<Endpoint>, Arc<Registry>);

fn begin(at: &[SocketAddr]) -> Result<Begun, MemoryError> {
    let run = Loop::new()?;
    let endpoint = Rc::new(Endpoint::bind(at)?);
    let address = endpoint.local_addr().ok_or(io::ErrorKind::AddrNotAvailable);
    let registry = Arc::new(Registry::new(address.map_err(io::Error::from)?));
    Ok((run, endpoint, registry))
}

fn serve(mut run: Loop, endpoint: Rc<Endpoint>, registry: Arc<Registry>) {
    let importers = Importers::begin(&endpoint, &registry);
    run.block_on(async {
        drop(spawn(async move { endpoint.serve().await }));
        loop {
            match registry.orders.next().await {
                Order::Revoke(number) => importers.revoke(number),
                Order::End => return,
            }
        }
    });
}
