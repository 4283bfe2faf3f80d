//! Sockets and epoll sets that change hands within and between processes: directed C programs print
//! what they saw, and it must be what the kernel alone gives.

use crate::same_as_kernel;

const SPINS: &[&str] = &["auto", "0"];

#[test]
fn numbers_that_change_their_meaning() {
    same_as_kernel("numbers", "", SPINS);
}

/// Also in epoll sets.
#[test]
fn stand_ins() {
    same_as_kernel("standin", "", SPINS);
}

/// The parent changes a set while its child begins to use it.
#[test]
fn sets_of_parent_and_child() {
    same_as_kernel("sets", "", SPINS);
}

#[test]
fn senders_whose_peer_is_killed() {
    same_as_kernel("killed", "", SPINS);
}
