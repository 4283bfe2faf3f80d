//! A region of another program, as its importer holds it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use super::error::MemoryError;
use super::importer;
use super::key::RegionKey;
use super::link::Link;
use super::protocol::Opened;
use super::writer::{PARTS, Writer};
use crate::share;
use crate::start::generation;

/// Memory of an exporter, to be written. Any thread may do so.
///
/// Writes of one thread are put in place in their order. Where the memory is shared, a write is in place when it returns; else
/// [`flush`](Import::flush) waits for that.
pub struct Import {
    link: Arc<Link>,
    size: usize,
    /// `None`: writes are messages.
    shared: Option<Writer>,
    generation: u32,
}

impl Import {
    pub async fn open(key: &RegionKey) -> Result<Import, MemoryError> {
        let link = Arc::new(Link::default());
        let guard = Opening(&link);
        let opened = importer::open(key, &link)?.get().await?;
        std::mem::forget(guard);
        Import::opened(link, opened)
    }

    /// The same, for a thread that waits.
    pub fn open_blocking(key: &RegionKey) -> Result<Import, MemoryError> {
        let link = Arc::new(Link::default());
        let opened = importer::open(key, &link)?.wait()?;
        Import::opened(link, opened)
    }

    fn opened(link: Arc<Link>, opened: Opened) -> Result<Import, MemoryError> {
        let import = |size, shared| Import {
            link: link.clone(),
            size,
            shared,
            generation: generation(),
        };
        let Opened::Granted { size, ticket } = opened else {
            link.dropped();
            return Err(MemoryError::WrongKey);
        };
        let Ok(size) = usize::try_from(size) else {
            link.dropped();
            return Err(MemoryError::Nonsense);
        };
        // Whatever is wrong with what was fetched, messages reach the exporter.
        let parts = ticket.and_then(|ticket| share::fetch(&ticket, PARTS).ok());
        let shared = parts.and_then(|parts| Writer::adopt(parts, size).ok());
        if ticket.is_some() {
            link.settled();
        }
        Ok(import(size, shared))
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
        match self.generation == generation() {
            true => self.link.check(),
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
            None => poll_fn(|task| self.link.poll_write(task, offset as u64, bytes)).await,
        }
    }

    /// The same, for a thread that waits.
    pub fn write_blocking(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check_write(offset, bytes.len())?;
        match &self.shared {
            Some(shared) => shared.write(offset, bytes),
            None => self.link.write_blocking(offset as u64, bytes),
        }
    }

    /// Waits until everything that was written is in place, and its wires have fired.
    pub async fn flush(&self) -> Result<(), MemoryError> {
        self.check()?;
        match self.is_shared() {
            true => Ok(()),
            false => self.link.flush().get().await,
        }
    }

    /// The same, for a thread that waits.
    pub fn flush_blocking(&self) -> Result<(), MemoryError> {
        self.check()?;
        match self.is_shared() {
            true => Ok(()),
            false => self.link.flush().wait(),
        }
    }
}

/// Somebody may stop waiting for the answer.
struct Opening<'a>(&'a Arc<Link>);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.dropped();
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Import({} bytes)", self.size)
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        if self.generation == generation() {
            self.link.dropped();
        }
    }
}
