//! The crate and all it depends on do without the standard library.

use std::path::Path;
use std::process::Command;

#[test]
fn nobody_asks_for_std() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(folder.join("src/lib.rs")).expect("the crate");
    assert!(source.lines().any(|line| line == "#![no_std]"));
    let tree = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args([
            "tree",
            "--package",
            env!("CARGO_PKG_NAME"),
            "--edges",
            "normal",
        ])
        .args(["--prefix", "none", "--format", "{p}: {f}", "--offline"])
        .output()
        .expect("cargo");
    let tree = String::from_utf8(tree.stdout).expect("text");
    assert!(tree.contains("smoltcp"), "{tree}");
    for line in tree.lines() {
        let features = line.rsplit(": ").next().unwrap_or_default();
        let mut features = features.split(',');
        // Procedural macros run in the compiler.
        let asks = features.any(|feature| feature == "std");
        assert!(!asks || line.contains("(proc-macro)"), "{line}");
    }
}
