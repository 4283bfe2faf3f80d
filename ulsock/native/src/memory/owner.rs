//! The exporter's side of a region.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netstack::shared_memory;
use netstack::watch::{Armed, Blocks, Mail, PER_GROUP};
use os::fds::InternalFd;
use shm::segment::Segment;

use super::bell::Bell;
use super::error::MemoryError;
use super::place::Place;
use super::wires::{SharedMail, Tables, Wires};
use super::writer::{note, pages_for, pages_of};

/// Importers of a region that share its memory: each look at the mails looks at all of theirs. Further ones send messages.
const MOST_SHARING: usize = 64;

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let is_mappable = (1..=isize::MAX as usize).contains(&size);
        let pages = pages_for(size).filter(|_| is_mappable);
        let pages = pages.ok_or(MemoryError::BadSize)?;
        // Before anything is taken: who takes more than there is gets no error from the kernel, but is killed.
        if os::available::memory().is_some_and(|left| pages > left) {
            return Err(MemoryError::NoMemory);
        }
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

    /// Tells the events of wires that were touched since the last look.
    pub fn collect(&self, mut tell: impl FnMut(usize, u64)) {
        self.wires(|wires, tables| wires.collect(tables, &mut tell));
    }

    /// An event is taken. Whether its wire is still there.
    pub fn take(&self, at: usize, id: u64) -> bool {
        self.wires(|wires, tables| wires.take(at, id, tables.own))
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
        let parts = [&self.place_fd, &self.armed_fd, self.bell.sleep_fd()];
        let [place, armed, sleep] = parts.map(InternalFd::duplicate);
        let (place, armed, sleep) = (place?, armed?, sleep?);
        let (rope, far) = self.bell.new_rope()?;
        let parts = vec![place, armed, sleep, far, mail_fd];
        let mail = Arc::new(SharedMail { mail, rope });
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
        self.bell.take_down(&gone.rope);
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
pub fn own_table<T>() -> Result<(Segment, InternalFd), MemoryError> {
    let (segment, fd) = Segment::create_own(pages_of::<T>())?;
    segment.populate(0, size_of::<T>())?;
    Ok((segment, fd))
}
