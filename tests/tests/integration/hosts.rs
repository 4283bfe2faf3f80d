//! Programs on two or three hosts, which are network namespaces, or in the containers of one: servers and their
//! clients, OpenMPI, many connections, a long stream, a bad cable, a long one, IPv6, daemons at rest, and what happens to
//! a transfer when something between its ends fails.

mod asked;
mod bells;
mod compare;
mod containers;
mod distant;
mod engines;
mod faults;
mod impaired;
mod inline;
mod ipv6;
mod killed;
mod late;
mod many;
mod measures;
mod mpi;
mod ordered;
mod pretender;
mod programs;
mod proposals;
mod rest;
mod sources;
mod strangers;
mod transfer;
mod trials;

use tests::hosts::Hosts;
use tests::program::Program;

use crate::script;

/// A script of `tests/scripts` on a host.
fn python(hosts: &Hosts, host: usize, name: &str) -> Program {
    hosts.program(host, "/usr/bin/python3").arg(script(name))
}
