//! The recording of one run of a program. `libulsock_trace.so` writes it from within the program ([`mod@write`]), and
//! `ulsock trace` reads it ([`read`]), also while programs still run, or after they were killed.
//!
//! A recording is a file for each program that is started (exec), in a folder of the command. All processes and threads
//! that come from it by fork and clone share the mapping, and each thread has chunks of its own in it: to record a call
//! takes no lock, no system call and no memory but that.

pub mod call;
pub mod entry;
pub mod layout;
pub mod read;
pub mod write;
