//! The exporter's side of a region, and of the bell that its importers ring.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use netstack::shared_memory;
use netstack::watch::{Armed, Blocks, Mail, PER_GROUP, Sleep};
use os::fds::InternalFd;
use shm::doorbell::{Doorbell, DoorbellKind, Ringer};
use shm::segment::Segment;

use super::error::MemoryError;
use super::place::Place;
use super::wires::Wires;
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

    /// Tells the wires that were touched since the last look.
    pub fn collect(&self, mut tell: impl FnMut(u64)) {
        lock(&self.regions).retain(|region| {
            let region = region.upgrade();
            if let Some(region) = &region {
                region.collect(&mut tell);
            }
            region.is_some()
        });
    }
}

/// Where a writer's touches are noted.
pub enum MailPlace {
    Shared(Segment),
    Own(Box<Mail>),
}

impl MailPlace {
    fn mail(&self) -> &Mail {
        match self {
            // SAFETY: it has a page, and lives as long as this.
            MailPlace::Shared(segment) => unsafe { shared_memory::at(segment.base()) },
            MailPlace::Own(mail) => mail,
        }
    }
}

/// What a writer of the same host gets, and its mail.
pub type Shared = (Arc<MailPlace>, Vec<InternalFd>);

pub struct Owner {
    pub number: u32,
    pub secret: [u8; 16],
    pub place: Place,
    place_fd: InternalFd,
    armed: Segment,
    armed_fd: InternalFd,
    blocks: Blocks,
    bell: Arc<Bell>,
    mails: Mutex<Vec<Arc<MailPlace>>>,
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
            mails: Mutex::default(),
            wires: Mutex::default(),
        });
        lock(&bell.regions).push(Arc::downgrade(&owner));
        Ok(owner)
    }

    fn armed(&self) -> &Armed {
        // SAFETY: it has its pages, lives as long as this, and is zeroed at first, which is without wires.
        unsafe { shared_memory::at(self.armed.base()) }
    }

    /// Runs with the wires locked, and what arms and disarms them.
    pub fn wires<T>(&self, change: impl FnOnce(&mut Wires, &Armed, Blocks) -> T) -> T {
        change(&mut lock(&self.wires), self.armed(), self.blocks)
    }

    /// For an importer whose writes are messages.
    pub fn add_mail(&self) -> Arc<MailPlace> {
        let mail = Arc::new(MailPlace::Own(Box::default()));
        lock(&self.mails).push(mail.clone());
        mail
    }

    /// For one that shares the memory: what it has to fetch. `None`: there are too many already.
    pub fn share(&self) -> Result<Option<Shared>, MemoryError> {
        let is_shared = |mail: &&Arc<MailPlace>| matches!(***mail, MailPlace::Shared(_));
        if lock(&self.mails).iter().filter(is_shared).count() >= MOST_SHARING {
            return Ok(None);
        }
        let (mail, mail_fd) = Segment::create(pages_of::<Mail>())?;
        mail.populate(0, size_of::<Mail>())?;
        let far = os::fds::duplicate_high(self.bell.doorbell.far_fd())?;
        let parts = [&self.place_fd, &self.armed_fd, &self.bell.sleep_fd];
        let [place, armed, sleep] = parts.map(InternalFd::duplicate);
        let parts = vec![place?, armed?, sleep?, far, mail_fd];
        let mail = Arc::new(MailPlace::Shared(mail));
        lock(&self.mails).push(mail.clone());
        Ok(Some((mail, parts)))
    }

    /// Its writer is gone: what it has noted is still told, by a mail that nobody else writes.
    pub fn remove_mail(&self, gone: &Arc<MailPlace>) {
        let left = Mail::new();
        let mut any = false;
        gone.mail().take_all(|wire| {
            let (group, bit) = (wire / PER_GROUP, wire % PER_GROUP);
            any |= left.note(group, 1 << bit);
        });
        let mut mails = lock(&self.mails);
        mails.retain(|mail| !Arc::ptr_eq(mail, gone));
        if any {
            mails.push(Arc::new(MailPlace::Own(Box::new(left))));
        }
        drop(mails);
        if any && self.bell.sleep().wants_bell() {
            self.bell.ring();
        }
    }

    /// These bytes were written by a message.
    pub fn written(&self, start: usize, end: usize, mail: &MailPlace) {
        let written = start as u64..end as u64;
        if note(
            self.armed(),
            self.blocks,
            written,
            mail.mail(),
            self.bell.sleep(),
        ) {
            self.bell.ring();
        }
    }

    fn collect(&self, mut tell: impl FnMut(u64)) {
        let mut mails = lock(&self.mails);
        for mail in mails.iter() {
            mail.mail().take(|wire| {
                let fired = self.wires(|wires, armed, blocks| wires.fire(wire, armed, blocks));
                if let Some(id) = fired {
                    tell(id);
                }
            });
        }
        // What a writer has left that is gone was told now.
        mails.retain(|mail| Arc::strong_count(mail) > 1 || !matches!(**mail, MailPlace::Own(_)));
    }
}

/// A table that only we write, and its descriptor.
fn own_table<T>() -> Result<(Segment, InternalFd), MemoryError> {
    let (segment, fd) = Segment::create_own(pages_of::<T>())?;
    segment.populate(0, size_of::<T>())?;
    Ok((segment, fd))
}
