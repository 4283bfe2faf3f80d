//! What the documents promise is shown: every line of their tables of threats and faults names a test that exists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLES: [&str; 2] = ["docs/threats.md", "docs/faults.md"];
/// In the column of what holds: then there is nothing to show.
const NOTHING: &str = "nothing";

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the project").to_owned()
}

/// The cells of a table's lines, without its head.
fn lines(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter_map(|line| {
        let row = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(row.split('|').map(str::trim).collect())
    });
    rows.skip(2).collect()
}

/// What a cell has in code marks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// All integration tests.
fn integration_tests() -> Vec<String> {
    let this = std::env::current_exe().expect("the path of this program");
    let listed = Command::new(this).arg("--list").output().expect("a list");
    let text = String::from_utf8(listed.stdout).expect("names");
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.map(str::to_owned).collect()
}

/// A test of another kind: the file that it is in, and its name there.
fn is_in_file(name: &str) -> bool {
    let (file, test) = name.split_once("::").unwrap_or((name, ""));
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let named = |begin: &str| text.contains(&format!("{begin} {test}("));
    !text.is_empty() && (test.is_empty() || named("fn") || named("def"))
}

#[test]
fn every_test_that_the_tables_name_exists() {
    let tests = integration_tests();
    // A name may be the beginning of several.
    let exists = |name: &str| tests.iter().any(|test| test.starts_with(name)) || is_in_file(name);
    for table in TABLES {
        let text = fs::read_to_string(root().join(table)).expect("a document");
        let lines = lines(&text);
        assert!(!lines.is_empty(), "{table} has no table");
        for line in lines {
            let [who, holds, _, shown] = line[..] else {
                panic!("{table}: a line has four columns: {line:?}");
            };
            let named: Vec<&str> = names(shown).collect();
            let is_shown = !named.is_empty() || holds.starts_with(NOTHING);
            assert!(is_shown, "{table}: nothing shows what is said of {who:?}");
            for name in named {
                assert!(exists(name), "{table}: {who:?} names {name:?}");
            }
        }
    }
}
