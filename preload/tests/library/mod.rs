//! The library that the tests load.

use std::path::PathBuf;
use std::process::Command;

/// Builds the library and says where it is. Cargo does not build a cdylib for its package's
/// integration tests, and would build it to unwind, which the shipped one never does.
pub fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let output = test
        .ancestors()
        .nth(2)
        .expect("<target>/<profile>/deps/<test>");
    let profile = match output.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--package",
            "ulsock_preload",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(output.parent().expect("<target>"))
        .status()
        .expect("cargo runs");
    assert!(status.success());
    output.join("libulsock_preload.so")
}
