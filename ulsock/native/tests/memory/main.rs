//! Remote memory within one host: importers share it.

#[path = "../common/mod.rs"]
mod common;
mod suite;

use std::future::Future;

/// Whether importers are to share the memory.
const SHARED: bool = true;

fn begin() {
    common::begin();
}

fn run<T>(future: impl Future<Output = T>) -> T {
    common::run(future)
}
