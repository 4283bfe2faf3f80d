//! What an exporter knows of its importers, and what it does with their messages.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::host;
use super::owner::Owner;
use super::protocol::{FLUSH, FLUSHED, OPEN, OPENED, Open, Opened, REVOKED, SETTLED, WRITE};
use super::registry::Registry;
use super::turns::{Turn, Turns};
use super::wires::SharedMail;
use crate::message::{Endpoint, Incoming, Layer, MessageError, Nonsense, Peer, Tasks};
use crate::share::{self, Deposit, Uses};

/// Bytes that are taken from a message at a time. What is not longer is put in place at once.
const PIECE: usize = 16 << 10;

/// One connection, for one region.
struct Importer {
    /// Held, so that no other peer has its key.
    peer: Peer,
    turns: Rc<Turns>,
    opened: RefCell<Option<Opening>>,
    was_revoked: Cell<bool>,
    /// Until it is fetched.
    deposit: Cell<Option<Deposit>>,
    room: Cell<Vec<u8>>,
}

/// The region that it has opened.
struct Opening {
    owner: Arc<Owner>,
    /// If it shares the memory, or may still do so.
    mail: Option<Arc<SharedMail>>,
}

impl Opening {
    fn unshare(&mut self) {
        if let Some(mail) = self.mail.take() {
            self.owner.unshare(&mail);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.unshare();
    }
}

pub struct Importers {
    registry: Arc<Registry>,
    all: RefCell<HashMap<usize, Rc<Importer>>>,
    host: Option<[u8; 16]>,
    tasks: Tasks,
}

impl Importers {
    pub fn begin(endpoint: &Rc<Endpoint>, registry: &Arc<Registry>) -> Rc<Importers> {
        let importers = Rc::new(Importers {
            registry: registry.clone(),
            all: RefCell::default(),
            host: host::here(),
            tasks: endpoint.tasks(),
        });
        let layer: Weak<Importers> = Rc::downgrade(&importers);
        endpoint.add_layer(layer as Weak<dyn Layer>);
        importers.handle(endpoint, OPEN, open);
        importers.handle(endpoint, SETTLED, settled);
        importers.handle(endpoint, WRITE, write);
        importers.handle(endpoint, FLUSH, flush);
        importers
    }

    /// Messages of one importer are handled one after the other.
    fn handle<F>(
        self: &Rc<Importers>,
        endpoint: &Endpoint,
        number: u16,
        handler: fn(Rc<Importers>, Rc<Importer>, Incoming) -> F,
    ) where
        F: Future<Output = Result<(), MessageError>> + 'static,
    {
        let importers = self.clone();
        endpoint.handle_own(number, move |message| {
            let importer = importers.of(&message.peer());
            let turn = importer.turns.enter();
            let importers = importers.clone();
            in_turn(
                turn,
                importer.clone(),
                handler(importers, importer, message),
            )
        });
    }

    fn of(&self, peer: &Peer) -> Rc<Importer> {
        let mut all = self.all.borrow_mut();
        let fresh = || {
            Rc::new(Importer {
                peer: peer.clone(),
                turns: Rc::default(),
                opened: RefCell::default(),
                was_revoked: Cell::new(false),
                deposit: Cell::default(),
                room: Cell::default(),
            })
        };
        all.entry(peer.key()).or_insert_with(fresh).clone()
    }

    pub fn revoke(&self, number: u32) {
        let all: Vec<_> = self.all.borrow().values().cloned().collect();
        for importer in all {
            let of_region = |opening: &mut Opening| opening.owner.number == number;
            let taken = importer.opened.borrow_mut().take_if(of_region);
            if taken.is_some() {
                importer.was_revoked.set(true);
                drop(importer.deposit.take());
                let peer = importer.peer.clone();
                self.tasks
                    .spawn(async move { peer.send(REVOKED, &[]).await });
            }
        }
    }
}

impl Layer for Importers {
    fn gone(&self, peer: &Peer) {
        let importer = self.all.borrow_mut().remove(&peer.key());
        drop(importer.and_then(|importer| importer.opened.take()));
    }

    fn refused(&self, _: &Peer, _: u16) {}

    fn ended(&self) {
        drop(self.all.take());
    }
}

/// What makes no sense ends the connection.
async fn in_turn(
    turn: Turn,
    importer: Rc<Importer>,
    handler: impl Future<Output = Result<(), MessageError>>,
) -> Result<(), MessageError> {
    turn.come().await;
    let done = handler.await;
    if let Err(MessageError::TooShort { .. } | MessageError::TooLong { .. }) = done {
        importer.peer.fail(Nonsense::Memory.into());
    }
    done
}

fn nonsense() -> MessageError {
    // As any other message of a wrong length.
    MessageError::TooLong { most: 0 }
}

async fn open(
    importers: Rc<Importers>,
    importer: Rc<Importer>,
    mut message: Incoming,
) -> Result<(), MessageError> {
    let bytes = message.read_rest(Open::LEN).await?;
    let open = Open::from_bytes(&bytes).ok_or_else(nonsense)?;
    if importer.opened.borrow().is_some() || importer.was_revoked.get() {
        return Err(nonsense());
    }
    let answer = match importers.registry.find(open.number, &open.secret) {
        Some(owner) => importer.grant(owner, importers.host == Some(open.host)),
        None => Opened::WrongKey,
    };
    importer
        .peer
        .send(OPENED, answer.to_bytes().as_bytes())
        .await
}

impl Importer {
    fn owner(&self) -> Option<Arc<Owner>> {
        let opened = self.opened.borrow();
        Some(opened.as_ref()?.owner.clone())
    }

    fn grant(&self, owner: Arc<Owner>, is_near: bool) -> Opened {
        let size = owner.place.size() as u64;
        // In doubt by messages: another user, too few descriptors.
        let shared = is_near.then(|| owner.share().ok().flatten()).flatten();
        let given = shared.and_then(|(mail, parts)| {
            let mail = Some(mail);
            let owner = owner.clone();
            let opening = Opening { owner, mail };
            Some((opening, share::deposit(parts, Uses::Once).ok()?))
        });
        let (opening, deposit) = match given {
            Some((opening, deposit)) => (opening, Some(deposit)),
            None => (Opening { owner, mail: None }, None),
        };
        let ticket = deposit.as_ref().map(Deposit::ticket);
        self.deposit.set(deposit);
        *self.opened.borrow_mut() = Some(opening);
        Opened::Granted { size, ticket }
    }
}

async fn settled(
    _: Rc<Importers>,
    importer: Rc<Importer>,
    message: Incoming,
) -> Result<(), MessageError> {
    let deposit = importer.deposit.take();
    // It could not fetch it, and writes by messages: others may share in its place.
    if deposit.is_some_and(|deposit| deposit.is_left())
        && let Some(opening) = &mut *importer.opened.borrow_mut()
    {
        opening.unshare();
    }
    message.skip().await
}

async fn write(
    _: Rc<Importers>,
    importer: Rc<Importer>,
    mut message: Incoming,
) -> Result<(), MessageError> {
    let mut offset = [0; 8];
    message.read_exact(&mut offset).await?;
    let owner = importer.owner();
    let Some(owner) = owner else {
        // It may not have heard of it yet.
        return match importer.was_revoked.get() {
            true => message.skip().await,
            false => Err(nonsense()),
        };
    };
    let start = usize::try_from(u64::from_le_bytes(offset)).map_err(|_| nonsense())?;
    let mut room = importer.room.take();
    room.resize(PIECE, 0);
    let mut end = start;
    loop {
        let n = message.read_up_to(&mut room).await?;
        owner.place.write(end, &room[..n]).map_err(|_| nonsense())?;
        end += n;
        if n < PIECE {
            break;
        }
    }
    importer.room.set(room);
    owner.written(start, end);
    Ok(())
}

async fn flush(
    _: Rc<Importers>,
    importer: Rc<Importer>,
    mut message: Incoming,
) -> Result<(), MessageError> {
    let mut number = [0; 8];
    message.read_exact(&mut number).await?;
    importer.peer.send(FLUSHED, &number).await
}
