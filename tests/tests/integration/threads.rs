//! Threads on connections: many on one, one under which another closes, many that come and go.

use crate::same_as_kernel;

#[test]
fn threads_and_connections() {
    same_as_kernel("threads", "1000 100", &["auto", "0"]);
}
