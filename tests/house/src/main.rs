//! Reads the sources of the workspace and rejects what breaks the rules of the tree: an import from a higher floor of
//! the sockets crate, a cycle between the modules of a crate, a `static` without an owner, a function or a file that
//! is too long. `rules.rs` has the tables.
//!
//! ```sh
//! cargo test -p house                        # names every violation: file, line, import, rule
//! HOUSE_ROOT=/other/tree cargo test -p house # the same for another working copy
//! HOUSE_ALL=1 cargo test -p house            # those that are not enforced yet, too
//! ```

mod c_files;
mod crates;
mod cycles;
mod floors;
mod length;
mod paths;
mod planted;
mod resolve;
mod rules;
mod statics;
mod test_code;

use std::env;
use std::path::{Path, PathBuf};

use crates::Tree;
use rules::Violation;

/// Every violation in the tree at `root`, in the order of files and lines.
fn violations(root: &Path) -> Vec<Violation> {
    let tree = Tree::new(root);
    let mut found = Vec::new();
    for krate in crates::product(&tree) {
        let imports = resolve::imports(&krate);
        if krate.folder == Path::new(rules::LADDER) {
            found.extend(floors::check(&krate, &imports));
            found.extend(statics::check(&krate));
        }
        found.extend(cycles::check(&imports));
    }
    found.extend(length::check(&tree));
    found.extend(c_files::check(root));
    found.sort_by(|a, b| (&a.file, a.line, &a.text).cmp(&(&b.file, b.line, &b.text)));
    found
}

fn workspace() -> PathBuf {
    match env::var_os("HOUSE_ROOT") {
        Some(root) => root.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
    }
}

#[test]
fn the_workspace_keeps_the_rules() {
    let all = env::var_os("HOUSE_ALL").is_some();
    let found: Vec<String> = violations(&workspace())
        .iter()
        .filter(|violation| all || violation.is_enforced())
        .map(Violation::to_string)
        .collect();
    assert!(
        found.is_empty(),
        "{} violations\n{}\n",
        found.len(),
        found.join("\n")
    );
}

/// A rule about a folder that has been renamed would find nothing.
#[test]
fn the_tables_name_what_exists() {
    let root = workspace();
    let rooms = rules::FLOORS
        .iter()
        .map(|room| Path::new(rules::LADDER).join("src").join(room));
    let others = [rules::C_FOLDER]
        .into_iter()
        .chain(rules::MEASURED_TOO.iter().copied());
    let excused = rules::NOT_ENFORCED
        .iter()
        .map(|(_, path)| PathBuf::from(path));
    for path in rooms.chain(others.map(PathBuf::from)).chain(excused) {
        assert!(root.join(&path).is_dir(), "{} is not there", path.display());
    }
}
