//! Figures that are kept beside the tests: a change of them is a diff to be read.

use std::path::Path;

/// Compares with what is kept; with `BLESS=1` keeps this.
pub fn check(name: &str, figures: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/link/figures")
        .join(name);
    if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(&path, figures).expect("a place for the figures");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == figures,
        "{name} has changed (BLESS=1 keeps it):\n{figures}"
    );
}
