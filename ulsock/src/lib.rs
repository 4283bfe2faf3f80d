//! The sockets layer of ulsock: connections leave kernel TCP for rings in shared memory, and return to it at
//! any doubt. Those between programs of one host share them; to another host they lead to an engine.
//!
//! `api` is what the preload library calls. `table` and `record` say what an fd is, `upgrade` finds
//! the peer, `conn` moves bytes, `poll` and `epoll` tell readiness, `inherit` follows processes. `nicd` is the
//! daemon of a host, with the engine for all its programs; `inline` has one in a program itself.

mod access;
mod alone;
pub mod api;
mod backoff;
mod bed;
mod birth;
mod block;
mod broker;
mod cancel;
mod channel;
mod chaos;
pub mod config;
mod conn;
mod control;
mod daemon;
mod doorbell;
mod epoll;
mod family;
mod flight;
mod gather;
mod guard;
mod inherit;
mod inline;
mod io;
mod layout;
mod lifecycle;
mod limits;
mod link;
mod log;
mod mailbox;
mod memory;
mod message;
mod mlock;
pub mod nicd;
mod offers;
mod options;
mod order;
mod pair;
mod passing;
pub mod plain;
mod pointer;
mod poll;
pub mod probe;
mod process;
mod reason;
mod record;
mod relay;
pub mod rundir;
mod segment;
mod select;
mod signal;
mod slips;
mod sockopt;
mod spin;
mod spinners;
pub mod stats;
mod sys;
mod table;
mod thread;
mod unhooked;
mod upgrade;
mod upkeep;
mod vfork;
mod waiter;
mod will;
