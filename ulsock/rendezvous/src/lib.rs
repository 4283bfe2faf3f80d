//! How two processes find each other, and agree on memory: the run directory, offers, mailboxes, channels, messages and
//! pairs; and the configuration, which says whether they should.

pub mod channel;
pub mod codec;
pub mod config;
pub mod engine_endpoint;
pub mod mailbox;
pub mod mailbox_name;
pub mod message;
pub mod names;
pub mod offers;
pub mod pair;
pub mod reason;
pub mod rings;
pub mod rundir;
pub mod tracer;
