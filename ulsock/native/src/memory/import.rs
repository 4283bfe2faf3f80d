//! A region of another program, as its importer holds it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::error::MemoryError;
use super::importer;
use super::key::RegionKey;
use super::link::Link;
use super::protocol::Opened;
use super::writer::{PARTS, Writer};
use crate::run::sleep;
use crate::share::{self, Ticket};
use crate::start::{generation, spawn_thread};

/// Memory of an exporter, to be written. Any thread may do so.
///
/// Writes of one thread are put in place in their order. Where the memory is shared, a write is in place when it returns; else
/// [`flush`](Import::flush) waits for that.
pub struct Import {
    held: Held,
    size: usize,
    /// `None`: writes are messages.
    shared: Option<Writer>,
}

impl Import {
    /// Nothing else of the task's thread is held up. It takes as long as the exporter takes to answer.
    pub async fn open(key: &RegionKey) -> Result<Import, MemoryError> {
        let held = Held::new();
        let opened = importer::open(key, &held.link)?.get().await?;
        let (mut import, ticket) = Import::granted(held, opened)?;
        if let Some(ticket) = ticket {
            import.share(fetch_aside(ticket, import.size).await);
        }
        Ok(import)
    }

    /// The same, but no longer than that: `TimedOut`.
    pub async fn open_within(key: &RegionKey, time: Duration) -> Result<Import, MemoryError> {
        let mut opened = pin!(Import::open(key));
        let mut over = pin!(sleep(time));
        poll_fn(|task| match opened.as_mut().poll(task) {
            Poll::Ready(opened) => Poll::Ready(opened),
            Poll::Pending => {
                let over = over.as_mut().poll(task);
                over.map(|over| Err(over.map_or_else(MemoryError::from, |()| late())))
            }
        })
        .await
    }

    /// The same, for a thread that waits.
    pub fn open_blocking(key: &RegionKey) -> Result<Import, MemoryError> {
        Import::open_until(key, None)
    }

    /// The same, but no longer than that: `TimedOut`.
    pub fn open_blocking_within(key: &RegionKey, time: Duration) -> Result<Import, MemoryError> {
        Import::open_until(key, Instant::now().checked_add(time))
    }

    fn open_until(key: &RegionKey, end: Option<Instant>) -> Result<Import, MemoryError> {
        let held = Held::new();
        let granted = importer::open(key, &held.link)?;
        let opened = granted.wait_until(end).ok_or_else(late)??;
        let (mut import, ticket) = Import::granted(held, opened)?;
        if let Some(ticket) = ticket {
            let left = end.map_or(Duration::MAX, |end| end - Instant::now().min(end));
            import.share(fetch(&ticket, import.size, left));
            if !import.is_shared() && end.is_some_and(|end| end <= Instant::now()) {
                return Err(late());
            }
        }
        Ok(import)
    }

    /// One that sends messages, and the ticket for more, if there is one.
    fn granted(held: Held, opened: Opened) -> Result<(Import, Option<Ticket>), MemoryError> {
        let Opened::Granted { size, ticket } = opened else {
            return Err(MemoryError::WrongKey);
        };
        let import = Import {
            held,
            size: usize::try_from(size).map_err(|_| MemoryError::Nonsense)?,
            shared: None,
        };
        Ok((import, ticket))
    }

    /// The exporter waits for the word that the ticket is settled, whatever has become of it.
    fn share(&mut self, fetched: Option<Writer>) {
        self.shared = fetched;
        self.held.link.settled();
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether a write is a copy into memory that the exporter shares.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// What has become of the region: an error is why it cannot be written any more.
    pub fn check(&self) -> Result<(), MemoryError> {
        match self.held.is_of_this_process() {
            true => self.held.link.check(),
            false => Err(MemoryError::Forked),
        }
    }

    fn check_write(&self, offset: usize, len: usize) -> Result<(), MemoryError> {
        self.check()?;
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(MemoryError::OutOfRange),
        }
    }

    /// Puts bytes there. Waits only where writes are messages, and too many of them are under way.
    pub async fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check_write(offset, bytes.len())?;
        match &self.shared {
            Some(shared) => shared.write(offset, bytes),
            None => poll_fn(|task| self.held.link.poll_write(task, offset as u64, bytes)).await,
        }
    }

    /// The same, for a thread that waits.
    pub fn write_blocking(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check_write(offset, bytes.len())?;
        match &self.shared {
            Some(shared) => shared.write(offset, bytes),
            None => self.held.link.write_blocking(offset as u64, bytes),
        }
    }

    /// Waits until everything that was written is in place, and its wires have fired.
    pub async fn flush(&self) -> Result<(), MemoryError> {
        self.check()?;
        match self.is_shared() {
            true => Ok(()),
            false => self.held.link.flush().get().await,
        }
    }

    /// The same, for a thread that waits.
    pub fn flush_blocking(&self) -> Result<(), MemoryError> {
        self.check()?;
        match self.is_shared() {
            true => Ok(()),
            false => self.held.link.flush().wait(),
        }
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Import({} bytes)", self.size)
    }
}

/// The link ends when this is dropped: also if somebody stops waiting for the answer.
struct Held {
    link: Arc<Link>,
    generation: u32,
}

impl Held {
    fn new() -> Held {
        Held {
            link: Arc::default(),
            generation: generation(),
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == generation()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            self.link.dropped();
        }
    }
}

fn late() -> MemoryError {
    MemoryError::TimedOut
}

/// `None`: whatever is wrong with what was fetched, messages reach the exporter.
fn fetch(ticket: &Ticket, size: usize, time: Duration) -> Option<Writer> {
    let parts = share::fetch_within(ticket, PARTS, time).ok()?;
    Writer::adopt(parts, size).ok()
}

/// The same, by a thread of its own: an exporter that has stopped meanwhile would hold up whatever else the caller's runs.
async fn fetch_aside(ticket: Ticket, size: usize) -> Option<Writer> {
    let fetched = Answer::new();
    let told = fetched.clone();
    let begun = spawn_thread("ulsock-fetch", move || {
        told.give(fetch(&ticket, size, Duration::MAX));
    });
    begun.ok()?;
    fetched.get().await
}
