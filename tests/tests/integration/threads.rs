//! Threads on connections: many on one, one under which another closes, many that come and go.

use crate::same_as_kernel;

#[test]
fn threads_and_connections() {
    same_as_kernel("threads", "1000 100", &["auto", "0"]);
}

#[test]
fn what_wakes_a_sleeper() {
    same_as_kernel("wakes", "", &["auto"]);
}
