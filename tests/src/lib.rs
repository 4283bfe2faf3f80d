//! Support for the integration tests: starting programs with and without ulsock, reading what they
//! report, and the pieces that the small test programs in `src/bin` have in common.
//!
//! The test programs use plain std and libc sockets and know nothing of ulsock.

pub mod args;
pub mod chaos;
pub mod compile;
pub mod cpython;
pub mod differ;
pub mod echo;
pub mod ends;
pub mod engine;
pub mod go;
pub mod hostile;
pub mod hosts;
pub mod netns;
pub mod passing;
pub mod pattern;
pub mod place;
pub mod ports;
pub mod procfs;
pub mod program;
pub mod progress;
pub mod report;
pub mod rng;
pub mod sock;
pub mod top;
pub mod wait;
