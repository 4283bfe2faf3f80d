//! Threads on connections: many on one, one under which another closes, many that come and go.

use crate::{same_as_kernel, same_as_kernel_by_both};

#[test]
fn threads_and_connections() {
    same_as_kernel("threads", "1000 100", &["auto", "0"]);
}

#[test]
fn what_wakes_a_sleeper() {
    same_as_kernel("wakes", "", &["auto"]);
}

#[test]
fn closed_under_a_sleeper_with_upkeep_due() {
    same_as_kernel("upkeep", "", &["auto"]);
}

#[test]
fn peeks_across_carriers() {
    same_as_kernel_by_both("peeks", "", &["auto"]);
}
