//! The thread that has the connections of all imports of this process. Made with the first import, and never ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::ptr::null_mut;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::task::Poll;

use super::answer::Answer;
use super::error::MemoryError;
use super::host;
use super::key::RegionKey;
use super::link::{Link, Send};
use super::orders::Orders;
use super::protocol::{FLUSH, FLUSHED, OPEN, OPENED, Open, Opened, REVOKED, SETTLED, WRITE};
use crate::message::{Endpoint, Incoming, Layer, MessageError, Peer};
use crate::run::{Loop, spawn};
use crate::start::{generation, spawn_thread};

pub type Granted = Answer<Result<Opened, MemoryError>>;

enum Order {
    Open {
        key: RegionKey,
        link: Arc<Link>,
        granted: Granted,
    },
    /// Another thread was faster.
    End,
}

struct Importer {
    orders: Orders<Order>,
    generation: u32,
}

/// Opens a region. What comes of the connection later is told to the link.
pub fn open(key: &RegionKey, link: &Arc<Link>) -> Result<Granted, MemoryError> {
    let granted = Answer::new();
    Importer::of_this_process()?.orders.push(Order::Open {
        key: *key,
        link: link.clone(),
        granted: granted.clone(),
    });
    Ok(granted)
}

impl Importer {
    /// Made once in each process. Without a lock, which a fork could find taken.
    fn of_this_process() -> Result<&'static Importer, MemoryError> {
        static OWN: AtomicPtr<Importer> = AtomicPtr::new(null_mut());
        let known = OWN.load(Ordering::Acquire);
        // SAFETY: what was stored here is never freed.
        if let Some(own) = unsafe { known.as_ref() }
            && own.generation == generation()
        {
            return Ok(own);
        }
        let fresh = Importer::begin()?;
        let place = std::ptr::from_ref(fresh).cast_mut();
        match OWN.compare_exchange(known, place, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(fresh),
            Err(other) => {
                fresh.orders.push(Order::End);
                // SAFETY: never freed, as above.
                Ok(unsafe { &*other })
            }
        }
    }

    fn begin() -> Result<&'static Importer, MemoryError> {
        let fresh: &'static Importer = Box::leak(Box::new(Importer {
            orders: Orders::new(),
            generation: generation(),
        }));
        let begun = Answer::new();
        let told = begun.clone();
        spawn_thread("ulsock-import", move || match Loop::new() {
            Ok(mut run) => {
                told.give(Ok(()));
                run.block_on(fresh.serve());
            }
            Err(error) => told.give(Err(error)),
        })?;
        begun.wait()?;
        Ok(fresh)
    }

    async fn serve(&self) {
        let endpoint = Rc::new(Endpoint::new());
        let imports = Imports::begin(&endpoint);
        let served = endpoint.clone();
        drop(spawn(async move { served.serve().await }));
        while let Order::Open { key, link, granted } = self.orders.next().await {
            let (imports, endpoint) = (imports.clone(), endpoint.clone());
            drop(spawn(async move {
                match imports.open(&endpoint, &key, &link, &granted).await {
                    Ok(peer) => imports.send_all(peer, link).await,
                    Err(error) => granted.give(Err(error)),
                }
            }));
        }
    }
}

struct Import {
    /// Held, so that no other peer has its key.
    _peer: Peer,
    link: Arc<Link>,
    /// Until it is given.
    granted: RefCell<Option<Granted>>,
}

#[derive(Default)]
struct Imports(RefCell<HashMap<usize, Rc<Import>>>);

impl Imports {
    fn begin(endpoint: &Rc<Endpoint>) -> Rc<Imports> {
        let imports: Rc<Imports> = Rc::default();
        let layer: Weak<Imports> = Rc::downgrade(&imports);
        endpoint.add_layer(layer as Weak<dyn Layer>);
        let own = imports.clone();
        endpoint.handle_own(OPENED, move |message| opened(own.clone(), message));
        let own = imports.clone();
        endpoint.handle_own(FLUSHED, move |message| flushed(own.clone(), message));
        let own = imports.clone();
        endpoint.handle_own(REVOKED, move |message| revoked(own.clone(), message));
        imports
    }

    fn of(&self, peer: &Peer) -> Option<Rc<Import>> {
        self.0.borrow().get(&peer.key()).cloned()
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        key: &RegionKey,
        link: &Arc<Link>,
        granted: &Granted,
    ) -> Result<Peer, MemoryError> {
        // A host that does not answer keeps a connection waiting for minutes; those who have given up do not.
        let connected = unless_dropped(link, endpoint.connect(key.address)).await;
        let peer = connected.ok_or(MemoryError::PeerGone)??;
        let import = Rc::new(Import {
            _peer: peer.clone(),
            link: link.clone(),
            granted: RefCell::new(Some(granted.clone())),
        });
        self.0.borrow_mut().insert(peer.key(), import.clone());
        let open = Open {
            number: key.number,
            secret: key.secret,
            host: host::here().unwrap_or_default(),
        };
        let sent = peer.send(OPEN, open.to_bytes().as_bytes()).await;
        // Else the answer, or the end of the peer, is told by who hears of it.
        match sent {
            Err(error) if import.granted.take().is_some() => Err(error.into()),
            _ => Ok(peer),
        }
    }

    /// Sends what is written, until the import is dropped or its connection has ended.
    async fn send_all(&self, peer: Peer, link: Arc<Link>) {
        send_queued(&peer, &link).await;
        if link.has_written() {
            // What was sent may still be on its way: with the connection it would be lost.
            let flushed = link.flush();
            send_queued(&peer, &link).await;
            let _ = flushed.get().await;
        }
        peer.close().await;
        self.0.borrow_mut().remove(&peer.key());
    }
}

/// `None`: nobody waits for the import any more.
async fn unless_dropped<F: Future>(link: &Link, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|task| match future.as_mut().poll(task) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => link.poll_dropped(task).map(|()| None),
    })
    .await
}

async fn send_queued(peer: &Peer, link: &Link) {
    while let Some(send) = link.next().await {
        let sent = match send {
            Send::Settled => peer.send(SETTLED, &[]).await,
            Send::Flush(number) => peer.send(FLUSH, &number.to_le_bytes()).await,
            Send::Write { offset, bytes } => {
                let sent = write(peer, offset, &bytes).await;
                link.sent(bytes.len());
                sent
            }
        };
        if let Err(error) = sent {
            link.end(error.into());
        }
    }
}

async fn write(peer: &Peer, offset: u64, bytes: &[u8]) -> Result<(), MessageError> {
    let mut message = peer.begin(WRITE)?;
    message.piece(&offset.to_le_bytes()).await?;
    message.end_with(bytes).await
}

impl Layer for Imports {
    fn gone(&self, peer: &Peer) {
        if let Some(import) = self.0.borrow_mut().remove(&peer.key()) {
            let why = peer.check().err();
            import.end(why.map_or(MemoryError::PeerGone, MemoryError::from));
        }
    }

    fn refused(&self, peer: &Peer, _: u16) {
        if let Some(import) = self.of(peer) {
            import.end(MemoryError::NoExporter);
        }
    }

    fn ended(&self) {
        drop(self.0.take());
    }
}

impl Import {
    fn end(&self, why: MemoryError) {
        self.link.end(why);
        if let Some(granted) = self.granted.take() {
            granted.give(Err(why));
        }
    }
}

async fn opened(imports: Rc<Imports>, mut message: Incoming) -> Result<(), MessageError> {
    let bytes = message.read_rest(Opened::LEN).await?;
    let Some(import) = imports.of(&message.peer()) else {
        return Ok(());
    };
    let granted = import.granted.take();
    match (granted, Opened::from_bytes(&bytes)) {
        (Some(granted), Some(opened)) => granted.give(Ok(opened)),
        (granted, _) => {
            import.granted.replace(granted);
            import.end(MemoryError::Nonsense);
        }
    }
    Ok(())
}

async fn flushed(imports: Rc<Imports>, mut message: Incoming) -> Result<(), MessageError> {
    let mut number = [0; 8];
    message.read_exact(&mut number).await?;
    if let Some(import) = imports.of(&message.peer()) {
        import.link.flushed(u64::from_le_bytes(number));
    }
    Ok(())
}

async fn revoked(imports: Rc<Imports>, message: Incoming) -> Result<(), MessageError> {
    if let Some(import) = imports.of(&message.peer()) {
        import.end(MemoryError::Revoked);
    }
    message.skip().await
}
