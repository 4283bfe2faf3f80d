//! Calls at the edges of what their arguments allow: directed C programs print what they saw, and it must be what the
//! kernel alone gives.

use crate::same_as_kernel;

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
