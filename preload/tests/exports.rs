//! `symbols.txt` is the one table of symbols: the built library exports exactly those that it says
//! are hooked, and the manual's list is made from it. A hook that is lost in a refactoring would be
//! noticed by no compiler, and a stray export would interpose on the program.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "library/mod.rs"]
mod library;

const TABLE: &str = include_str!("../symbols.txt");
const TITLE: &str = "# == ";
/// Where the list stands in the manual.
const BEGIN: &str = "<!-- made from preload/symbols.txt -->\n";
const END: &str = "<!-- end -->\n";

/// The effects as the table has them, and as the manual says them.
const EFFECTS: [(&str, &str); 4] = [
    ("handled", "Handled"),
    ("returns", "Return the connection to the kernel"),
    ("noted", "Noted"),
    ("kernel", "Not hooked"),
];

/// What the recorder of `ulsock trace` looks up; no program calls it.
const OWN: &str = "ulsock_trace_attach";

struct Row<'a> {
    group: &'a str,
    name: &'a str,
    effect: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let mut group = "";
    let mut rows = Vec::new();
    for line in TABLE.lines() {
        if let Some(title) = line.strip_prefix(TITLE) {
            group = title;
        } else if let Some((name, effect)) = line.split_once(' ').filter(|_| !line.starts_with('#'))
        {
            assert!(EFFECTS.iter().any(|(known, _)| *known == effect), "{line}");
            rows.push(Row {
                group,
                name,
                effect,
            });
        }
    }
    rows
}

#[test]
fn exports_are_the_listed_ones() {
    let rows = rows();
    let hooked = rows.iter().filter(|row| row.effect != "kernel");
    let listed: BTreeSet<&str> = hooked.map(|row| row.name).chain([OWN]).collect();
    let nm = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library::build())
        .output()
        .expect("nm runs");
    assert!(nm.status.success());
    let table = String::from_utf8(nm.stdout).expect("symbol names are ASCII");
    let exported: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let lost: Vec<_> = listed.difference(&exported).collect();
    let stray: Vec<_> = exported.difference(&listed).collect();
    assert!(
        lost.is_empty() && stray.is_empty(),
        "lost {lost:?}, stray {stray:?}"
    );
}

/// The manual's list. A symbol that stands twice in the table would stand twice here.
fn list() -> String {
    let rows = rows();
    let mut text = String::new();
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group).collect();
    groups.dedup();
    for group in groups {
        let _ = writeln!(text, "\n**{group}**\n");
        for (effect, title) in EFFECTS {
            let names: Vec<String> = rows
                .iter()
                .filter(|row| row.group == group && row.effect == effect)
                .map(|row| format!("`{}`", row.name))
                .collect();
            if !names.is_empty() {
                let _ = writeln!(text, "- {title}: {}.", names.join(", "));
            }
        }
    }
    text.push('\n');
    text
}

/// `BLESS=1` in the environment writes the list into the manual instead.
#[test]
fn the_manual_lists_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manual.md");
    let manual = fs::read_to_string(&path).expect("the manual");
    let (before, rest) = manual.split_once(BEGIN).expect("the beginning of the list");
    let (found, after) = rest.split_once(END).expect("the end of the list");
    if std::env::var_os("BLESS").is_some() {
        let text = format!("{before}{BEGIN}{}{END}{after}", list());
        return fs::write(path, text).expect("the manual");
    }
    assert_eq!(found, list(), "out of date: run this test with BLESS=1");
}
