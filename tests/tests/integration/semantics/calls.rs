//! Calls at the edges of what their arguments allow: directed C programs print what they saw, and it must be what the
//! kernel alone gives.

use crate::{same_as_kernel, same_as_kernel_by_both};

const SPINS: &[&str] = &["auto", "0"];

/// Time limits, counts and errors of recvmmsg and sendmmsg.
#[test]
fn many_messages() {
    same_as_kernel("messages", "", SPINS);
}

#[test]
fn lengths_that_no_buffer_has() {
    same_as_kernel("lengths", "", SPINS);
}

#[test]
fn numbers_closed_while_a_call_sleeps() {
    same_as_kernel("closed", "", SPINS);
}

#[test]
fn send_buffers_that_change_while_a_send_waits() {
    same_as_kernel_by_both("sndbuf", "", SPINS);
}

/// Whoever waits is told of them, however it waits, and nobody spins.
#[test]
fn bytes_that_are_written_past_the_ring() {
    same_as_kernel_by_both("past", "", SPINS);
}
