//! What the documents promise is shown: every line of their tables of threats and faults names a test that exists,
//! every link leads somewhere, and every file that they name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLES: [&str; 2] = ["docs/threats.md", "docs/faults.md"];
/// They name files by their path, or by its end.
const NAMING: [&str; 5] = [
    "CONTRIBUTING.md",
    "docs/design.md",
    "docs/failover.md",
    "docs/link.md",
    "docs/performance.md",
];
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

/// The files of the project, as git knows them, by their paths.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git");
    let text = String::from_utf8(listed.stdout).expect("paths");
    let files: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(!files.is_empty(), "git lists no files");
    let exists = |file: &String| root().join(file).exists();
    files.into_iter().filter(exists).collect()
}

/// A document without its blocks of code.
fn prose(document: &str) -> String {
    let text = fs::read_to_string(root().join(document)).expect("a document");
    let outside = text.split("```").step_by(2);
    outside.collect::<Vec<_>>().join("\n")
}

/// The name by which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let text: String = heading.to_lowercase().chars().filter(kept).collect();
    text.trim().replace(' ', "-")
}

fn has_anchor(document: &str, name: &str) -> bool {
    let text = prose(document);
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#')) == name)
}

/// Where the links of a document lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// Why a link of a document leads nowhere, if it does not.
fn broken(document: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, name) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(document).parent().expect("a folder");
    let path = match file.is_empty() {
        true => PathBuf::from(document),
        false => folder.join(file),
    };
    let path = path.to_str().expect("a path");
    if !root().join(path).exists() {
        return Some(format!("{document}: no file for the link {link}"));
    }
    let found = name.is_empty() || has_anchor(path, name);
    (!found).then(|| format!("{document}: no heading for the link {link}"))
}

#[test]
fn every_link_leads_somewhere() {
    let files = files();
    let documents = files.iter().filter(|file| file.ends_with(".md"));
    let broken: Vec<String> = documents
        .flat_map(|document| {
            let text = prose(document);
            let broken = links(&text).filter_map(|link| broken(document, link));
            broken.collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// All ends of the paths of files and folders: `conn/send.rs` of `ulsock/src/conn/send.rs`.
fn path_ends(files: &[String]) -> BTreeSet<String> {
    let mut ends = BTreeSet::new();
    for file in files {
        let parts: Vec<&str> = file.split('/').collect();
        for last in 1..=parts.len() {
            let ends_here = (0..last).map(|first| parts[first..last].join("/"));
            ends.extend(ends_here);
        }
    }
    ends
}

/// Whether a name in code marks is the path of a file or folder of the project, or means to be.
fn is_path(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.-".contains(c);
    let ours = !name.starts_with('/') && !name.starts_with("target/") && !name.contains("..");
    ours && name.chars().all(plain) && (name.contains('/') || name.ends_with(".rs"))
}

#[test]
fn every_file_that_a_document_names_exists() {
    let ends = path_ends(&files());
    let exists = |name: &str| {
        let name = name.trim_end_matches('/');
        ends.contains(name) || ends.contains(&format!("{name}.rs"))
    };
    for document in NAMING {
        let text = prose(document);
        let named: Vec<&str> = names(&text).filter(|name| is_path(name)).collect();
        assert!(!named.is_empty(), "{document} names no file");
        let missing: Vec<&&str> = named.iter().filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "{document} names {missing:?}");
    }
}

/// Where a package puts the documents there is nothing of the repository but them.
#[test]
fn what_installed_documents_link_to_is_installed_with_them() {
    let stage = fs::read_to_string(root().join("packaging/stage")).expect("the script");
    let line = stage.lines().find(|line| line.contains("in docs/*.md"));
    let words = line.expect("the documents").split_whitespace();
    let patterns: Vec<_> = words
        .filter_map(|word| word.trim_end_matches(';').strip_prefix("docs/"))
        .collect();
    let is_installed = |file: &str| {
        patterns
            .iter()
            .any(|pattern| match pattern.strip_prefix('*') {
                Some(end) => file.ends_with(end),
                None => file == *pattern,
            })
    };
    let mut missing = Vec::new();
    for document in files().iter().filter(|file| file.starts_with("docs/")) {
        if !document.ends_with(".md") {
            continue;
        }
        for link in links(&prose(document)).filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !is_installed(file) {
                missing.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?} by {patterns:?}");
}
