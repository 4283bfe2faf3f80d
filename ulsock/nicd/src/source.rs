//! Where clusters keep who belongs to them: etcd, Kubernetes or DNS, each a [`PeerSource`]. What a source says is a set of
//! entries, each with a line as of the peers file, and is checked like that file. Which source it is, this crate does not
//! know.
//!
//! A source reads in a thread of its own. That thread also sifts and saves what it has read, so that the daemon is handed
//! whole sets of peers that are ready for use.

mod backoff;
mod desk;
mod entry;
mod saved;
mod sift;

use std::io;
use std::time::Duration;

pub use backoff::Backoff;
pub use desk::{Desk, News, Notice, SourceStatus};
pub use entry::{Entry, LONGEST_LINE, LONGEST_ORIGIN};
pub use saved::{Saved, Unsaved};
pub use sift::{Last, MOST_ENTRIES, Refused, Sifted, sift};

pub trait PeerSource: Send {
    /// How it is called in what the daemon says.
    fn title(&self) -> &str;

    /// What a person can do when it is out of reach.
    fn cure(&self) -> &str;

    /// Reads all that is there now, and takes so long at most. No thread of it remains.
    fn read(&mut self, within: Duration) -> Result<Vec<Entry>, String>;

    /// Begins to tell what is there, now and after every change, until the daemon ends. Whatever fails, it tries again.
    fn begin(&mut self, news: News) -> io::Result<()>;
}
