//! The book has all documents, and what its first chapter says to type works.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tests::ends::{Ends, kernel_only};
use tests::place::Place;
use tests::ports;

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the project").to_owned()
}

#[test]
fn it_has_every_document() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("a summary");
    let named = summary.split("](").skip(1);
    let named: BTreeSet<String> = named
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect();
    let files = fs::read_dir(docs).expect("documents").flatten();
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let there: BTreeSet<String> = names
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    assert_eq!(named, there);
}

/// Names of the headings of a document, as links use them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| -> String {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.replace(' ', "-");
        kept.chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    headings.map(name).collect()
}

/// Pages of the book know no other files than those of their folder.
#[test]
fn its_links_lead_to_its_own_pages() {
    let docs = root().join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap_or_default();
    let files = fs::read_dir(&docs).expect("documents").flatten();
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for page in names.filter(|name| name.ends_with(".md")) {
        let text = read(&page);
        let links = text.split("](").skip(1);
        let links = links.filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { &page } else { file };
            assert!(
                !file.contains('/') && docs.join(file).is_file(),
                "{page} links to {link}, which is no page of the book"
            );
            let found = anchor.is_empty() || anchors(&read(file)).contains(anchor);
            assert!(found, "{page} links to {link}: there is no such heading");
        }
    }
}

/// The commands of the first chapter, but for those that build.
fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    lines.filter(|line| !line.starts_with("cargo ")).collect()
}

#[test]
fn its_first_chapter_works() {
    if kernel_only() {
        return;
    }
    let place = Place::new(Ends::Both);
    let text = fs::read_to_string(root().join("docs/start.md")).expect("a chapter");
    let commands = commands(&text);
    assert!(commands.len() >= 7, "{commands:?}");
    // If one of them fails, redis does not stay. That it is gone already is no failure.
    let end = "trap 'redis-cli -p 7101 shutdown nosave >/dev/null 2>&1 || :' EXIT\n";
    let script = end.to_owned() + &commands.join("\n");
    let script = script.replace("7101", &ports::free().to_string());
    let shell = place.client("/bin/bash").without("LD_PRELOAD");
    let shell = shell.args("-e -o pipefail -c").arg(script);
    let output = shell.directory(&root()).run();
    for expected in ["All is well", "promoted", "redis-server", "ping-pong"] {
        assert!(output.contains(expected), "{expected} in {output}");
    }
}
