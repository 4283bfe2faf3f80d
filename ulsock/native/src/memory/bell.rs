//! What a queue sleeps on, and what wakes it. Each importer that shares memory has a rope of its own, an eventfd: whoever has one
//! can take its rings off, fill it, or make calls on it wait, which then concerns nobody else. The owner never reads or writes what
//! an importer holds: an edge-triggered epoll set tells it of each ring.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, Weak};

use netstack::shared_memory;
use netstack::watch::Sleep;
use os::fds::{InternalFd, duplicate_high, to_high};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::Timespec;
use shm::doorbell::{Doorbell, DoorbellKind, Ringer};
use shm::segment::Segment;

use super::error::MemoryError;
use super::owner::{Owner, lock, own_table};

/// The bell of a queue, for the importers of all its regions.
pub struct Bell {
    sleep: Segment,
    sleep_fd: InternalFd,
    /// Readable when one of the ropes was pulled.
    set: InternalFd,
    /// Of the exporter's own threads.
    _own: Doorbell,
    ringer: Ringer,
    regions: Mutex<Vec<Weak<Owner>>>,
}

/// Rings that are taken off with one call, and calls at a time: importers can ring as fast as they are heard.
const AT_ONCE: usize = 16;
const DRAINS: usize = 4;

impl Bell {
    pub fn new() -> Result<Bell, MemoryError> {
        let (sleep, sleep_fd) = own_table::<Sleep>()?;
        let set = to_high(epoll::create(CreateFlags::CLOEXEC)?)?;
        let (own, far) = new_rope(&set)?;
        let ringer = Ringer::adopt(DoorbellKind::Event, far, true);
        Ok(Bell {
            sleep,
            sleep_fd,
            set,
            _own: own,
            ringer: ringer.map_err(|_| MemoryError::Nonsense)?,
            regions: Mutex::default(),
        })
    }

    /// For an importer: what is kept as long as it may ring, and what it gets.
    pub fn new_rope(&self) -> Result<(Doorbell, InternalFd), MemoryError> {
        new_rope(&self.set)
    }

    /// Its importer is gone. It may still hold its end: closing ours would not be enough.
    pub fn take_down(&self, rope: &Doorbell) {
        let _ = epoll::delete(&self.set, rope.wait_fd());
    }

    pub fn sleep_fd(&self) -> &InternalFd {
        &self.sleep_fd
    }

    pub fn sleep(&self) -> &Sleep {
        // SAFETY: it has a page, lives as long as this, and is zeroed at first, which is awake.
        unsafe { shared_memory::at(self.sleep.base()) }
    }

    pub fn ring(&self) {
        let _ = self.ringer.ring();
    }

    /// Readable when somebody has rung.
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Takes the rings off, so that the next one wakes again.
    pub fn drain(&self) {
        for _ in 0..DRAINS {
            let mut room = [const { MaybeUninit::uninit() }; AT_ONCE];
            let now = Timespec::default();
            match epoll::wait(&self.set, &mut room, Some(&now)) {
                Ok((told, _)) if told.len() == AT_ONCE => {}
                _ => return,
            }
        }
    }

    pub fn add(&self, region: &Arc<Owner>) {
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
            owner.collect(|at, id| {
                let region = region.clone();
                tell(Told { region, at, id });
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
        region.take(self.at, self.id).then_some(self.id)
    }
}

fn new_rope(set: &InternalFd) -> Result<(Doorbell, InternalFd), MemoryError> {
    let rope = Doorbell::new_event()?;
    let far = duplicate_high(rope.far_fd())?;
    // Each ring is an edge, and what it counts need not be read.
    let data = EventData::new_u64(0);
    epoll::add(set, rope.wait_fd(), data, EventFlags::IN | EventFlags::ET)?;
    Ok((rope, far))
}
