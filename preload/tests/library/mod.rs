//! The library that the tests load.

use std::path::PathBuf;
use std::process::Command;

/// Builds the library as it is shipped, whatever profile the tests have, and says where it is. Cargo
/// does not build a cdylib for its package's integration tests, and would build it to unwind, which
/// the shipped one never does. With the whole workspace, as `tests/run` has built it: a package built
/// alone has other features of what it depends on, and all would be compiled anew.
pub fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .ancestors()
        .nth(3)
        .expect("<target>/<profile>/deps/<test>");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--release"])
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(status.success());
    target.join("release/libulsock_preload.so")
}
