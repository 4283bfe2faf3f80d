//! The exporter's side of a region, and of the bell that its importers ring.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use netstack::shared_memory;
use netstack::watch::{Armed, Blocks, Mail, PER_GROUP, Sleep};
use os::fds::InternalFd;
use shm::doorbell::{Doorbell, DoorbellKind, Ringer};
use shm::segment::Segment;

use super::error::MemoryError;
use super::place::Place;
use super::wires::{SharedMail, Tables, Wires};
use super::writer::{note, pages_for, pages_of};

/// Importers of a region that share its memory: each look at the mails looks at all of theirs. Further ones send messages.
const MOST_SHARING: usize = 64;

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the importers of all regions of a queue share.
pub struct Bell {
    sleep: Segment,
    sleep_fd: InternalFd,
    pub doorbell: Doorbell,
    ringer: Ringer,
    regions: Mutex<Vec<Weak<Owner>>>,
}

impl Bell {
    pub fn new() -> Result<Bell, MemoryError> {
        let (sleep, sleep_fd) = own_table::<Sleep>()?;
        let doorbell = Doorbell::new_event()?;
        let far = os::fds::duplicate_high(doorbell.far_fd())?;
        let ringer = Ringer::adopt(DoorbellKind::Event, far, true);
        Ok(Bell {
            sleep,
            sleep_fd,
            doorbell,
            ringer: ringer.map_err(|_| MemoryError::Nonsense)?,
            regions: Mutex::default(),
        })
    }

    pub fn sleep(&self) -> &Sleep {
        // SAFETY: it has a page, lives as long as this, and is zeroed at first, which is awake.
        unsafe { shared_memory::at(self.sleep.base()) }
    }

    pub fn ring(&self) {
        let _ = self.ringer.ring();
    }

    fn add(&self, region: &Arc<Owner>) {
        let mut regions = lock(&self.regions);
        // Now and then, for nobody may ever look.
        if regions.len() == regions.capacity() {
            regions.retain(|region| region.strong_count() > 0);
        }
        regions.push(Arc::downgrade(region));
    }

    /// Tells the wires that were touched since the last look.
    pub fn collect(&self, mut tell: impl FnMut(Told)) {
        lock(&self.regions).retain(|region| {
            let Some(owner) = region.upgrade() else {
                return false;
            };
            owner.wires(|wires, tables| {
                wires.collect(tables, |at, id| {
                    let region = region.clone();
                    tell(Told { region, at, id });
                });
            });
            true
        });
    }
}

/// An event that nobody has taken yet.
pub struct Told {
    region: Weak<Owner>,
    at: usize,
    id: u64,
}

impl Told {
    /// The number of its wire, if that is still there.
    pub fn take(&self) -> Option<u64> {
        let region = self.region.upgrade()?;
        let is_there = region.wires(|wires, tables| wires.take(self.at, self.id, tables.own));
        is_there.then_some(self.id)
    }
}

/// What a writer of the same host gets, and its mail.
pub type Shared = (Arc<SharedMail>, Vec<InternalFd>);

pub struct Owner {
    pub number: u32,
    pub secret: [u8; 16],
    pub place: Place,
    place_fd: InternalFd,
    armed: Segment,
    armed_fd: InternalFd,
    blocks: Blocks,
    bell: Arc<Bell>,
    /// Of writes that are messages, and of importers that are gone. Only threads of ours write here.
    own: Mail,
    wires: Mutex<Wires>,
}

impl Owner {
    pub fn new(
        number: u32,
        secret: [u8; 16],
        size: usize,
        bell: &Arc<Bell>,
    ) -> Result<Arc<Owner>, MemoryError> {
        let pages = pages_for(size).filter(|_| size > 0);
        let pages = pages.ok_or(MemoryError::BadSize)?;
        let (memory, place_fd) = Segment::create(pages)?;
        // All of it now: a host without memory says so here, and not by a signal at the first touch, which may be an importer's.
        memory.populate(0, size)?;
        let (armed, armed_fd) = own_table::<Armed>()?;
        let owner = Arc::new(Owner {
            number,
            secret,
            place: Place::new(memory, size),
            place_fd,
            armed,
            armed_fd,
            blocks: Blocks::new(size as u64),
            bell: bell.clone(),
            own: Mail::new(),
            wires: Mutex::default(),
        });
        bell.add(&owner);
        Ok(owner)
    }

    fn armed(&self) -> &Armed {
        // SAFETY: it has its pages, lives as long as this, and is zeroed at first, which is without wires.
        unsafe { shared_memory::at(self.armed.base()) }
    }

    /// Runs with the wires locked, and what arms and notes them.
    pub fn wires<T>(&self, run: impl FnOnce(&mut Wires, Tables<'_>) -> T) -> T {
        let tables = Tables {
            armed: self.armed(),
            blocks: self.blocks,
            own: &self.own,
        };
        run(&mut lock(&self.wires), tables)
    }

    /// For one that shares the memory: what it has to fetch. `None`: there are too many already.
    pub fn share(&self) -> Result<Option<Shared>, MemoryError> {
        if self.wires(|wires, _| wires.shared.len()) >= MOST_SHARING {
            return Ok(None);
        }
        let (mail, mail_fd) = Segment::create(pages_of::<Mail>())?;
        mail.populate(0, size_of::<Mail>())?;
        let far = os::fds::duplicate_high(self.bell.doorbell.far_fd())?;
        let parts = [&self.place_fd, &self.armed_fd, &self.bell.sleep_fd];
        let [place, armed, sleep] = parts.map(InternalFd::duplicate);
        let parts = vec![place?, armed?, sleep?, far, mail_fd];
        let mail = Arc::new(SharedMail(mail));
        self.wires(|wires, _| wires.shared.push(mail.clone()));
        Ok(Some((mail, parts)))
    }

    /// Its writer is gone: what it has noted is still told, by our own mail.
    pub fn unshare(&self, gone: &Arc<SharedMail>) {
        let mut was_empty = false;
        gone.mail().take_all(|wire| {
            let (group, bit) = (wire / PER_GROUP, wire % PER_GROUP);
            was_empty |= self.own.note(group, 1 << bit);
        });
        self.wires(|wires, _| wires.shared.retain(|mail| !Arc::ptr_eq(mail, gone)));
        if was_empty && self.bell.sleep().wants_bell() {
            self.bell.ring();
        }
    }

    /// These bytes were written by a message.
    pub fn written(&self, start: usize, end: usize) {
        let written = start as u64..end as u64;
        let sleep = self.bell.sleep();
        if note(self.armed(), self.blocks, written, &self.own, sleep) {
            self.bell.ring();
        }
    }
}

/// A table that only we write, and its descriptor.
fn own_table<T>() -> Result<(Segment, InternalFd), MemoryError> {
    let (segment, fd) = Segment::create_own(pages_of::<T>())?;
    segment.populate(0, size_of::<T>())?;
    Ok((segment, fd))
}
