//! The calls that a program makes, and the life of its process.

pub mod api;
pub mod descriptors;
pub mod exec;
pub mod exec_handoff;
pub mod fork_counts;
pub mod io;
mod kernel_tls;
pub mod life;
pub mod limits;
pub mod opening;
pub mod options;
pub mod passing;
pub mod restart;
pub mod return_all;
pub mod sockopt;
pub mod splice_process;
pub mod stand_in;
pub mod uring;
pub mod vfork;

#[cfg(test)]
mod tests;
