//! C programs of `tests/programs`, compiled by the tests that need them: what Rust cannot be, such as
//! a library with constructors, a static program, or one with a sanitizer.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` into `folder` with `compiler` and its `flags`, and says where the result is.
pub fn compile(compiler: &str, source: &str, flags: &str, folder: &Path, name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let result = folder.join(name);
    let output = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror"])
        .arg(sources.join(source))
        .arg("-o")
        .arg(&result)
        .args(flags.split_whitespace())
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(
        output.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    result
}
