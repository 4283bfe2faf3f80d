//! The same where nothing is shared: ulsock is off, and writes are messages over kernel TCP.

#[path = "../memory/suite/mod.rs"]
mod suite;

mod stopped;

use std::future::Future;

use ulsock_native::run::block_on;

const SHARED: bool = false;

fn begin() {
    static BEGIN: std::sync::Once = std::sync::Once::new();
    // SAFETY: every test comes by here first, and none reads its environment before.
    BEGIN.call_once(|| unsafe { std::env::set_var("ULSOCK", "0") });
}

fn run<T>(future: impl Future<Output = T>) -> T {
    begin();
    block_on(future).expect("a loop")
}
