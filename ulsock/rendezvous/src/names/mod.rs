//! Names of services, after TIPC: a program registers a name and an instance for an address, others look it up, or hear when
//! it appears and disappears. Used by native programs and by the daemon, which writes other hosts' names down here.
//!
//! A name is a file in a folder of its user's in the run directory. Its owner holds a lock on the file, so that it is over
//! with the process, however that ends; nobody serves the names.

mod directory;
mod folder;
mod label;
mod record;
mod watch;

pub use directory::{Directory, Users};
pub use folder::{Folder, Held, NotPublished};
pub use label::{Elsewhere, LONGEST, Label, Service};
pub use record::Record;
pub use watch::{Change, Interest, Watch};

#[cfg(test)]
mod tests;
