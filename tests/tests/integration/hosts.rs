//! Programs on two or three hosts, which are network namespaces: servers and their clients, OpenMPI, many
//! connections, a long stream, a bad cable, a long one, IPv6, daemons at rest, and what happens to a transfer when something between its ends fails.

mod asked;
mod compare;
mod distant;
mod faults;
mod impaired;
mod inline;
mod ipv6;
mod killed;
mod late;
mod many;
mod measures;
mod mpi;
pub mod programs;
mod proposals;
mod rest;
mod strangers;
mod transfer;
