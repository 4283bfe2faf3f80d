//! What a descriptor is: the table, records, the process group that shares them, ring pairs, and what the process knows of
//! its daemons.

pub mod begin;
pub mod container_client;
pub mod control;
pub mod daemon_client;
pub mod engine;
pub mod give_record;
pub mod guard_policy;
pub mod guard_state;
pub mod holders;
pub mod journal;
pub mod kernel_only;
pub mod lookup;
pub mod observe;
pub mod process_group;
pub mod record;
pub mod ring_pair;
pub mod slips;
pub mod stats;
pub mod table;
pub mod upgrade_history;
pub mod urings;
pub mod verdict;
