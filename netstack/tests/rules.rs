//! Every rule of the specifications is cited where it is obeyed and where it is proved, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

type Rules = BTreeSet<String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names in brackets: a letter and a number.
fn names(text: &str) -> Rules {
    let inside = text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split(']').next());
    let is_name = |name: &&str| {
        let mut letters = name.chars();
        letters
            .next()
            .is_some_and(|letter| letter.is_ascii_uppercase())
            && !letters.as_str().is_empty()
            && letters.all(|digit| digit.is_ascii_digit())
    };
    inside.filter(is_name).map(str::to_string).collect()
}

/// The rules that a document states; none if it is not there.
fn stated(document: &str) -> Rules {
    let path = root().join("../docs").join(document);
    let text = fs::read_to_string(path).unwrap_or_default();
    let rules = text.lines().filter_map(|line| line.strip_prefix("- ["));
    let rules = rules.filter_map(|rest| rest.split(']').next());
    names(&rules.map(|rule| format!("[{rule}]")).collect::<String>())
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What the comments of a file cite.
fn cited(text: &str) -> Rules {
    let comments = text.lines().filter_map(|line| line.split_once("//"));
    names(&comments.map(|(_, comment)| comment).collect::<String>())
}

/// What is cited in the code, and in tests.
fn citations() -> (Rules, Rules) {
    let (mut code, mut tests) = (Rules::new(), Rules::new());
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("a file");
        // Tests come last in a file, or have one of their own.
        let (before, after) = match file.ends_with("tests.rs") {
            true => ("", &text[..]),
            false => text.split_once("#[cfg(test)]").unwrap_or((&text, "")),
        };
        code.append(&mut cited(before));
        tests.append(&mut cited(after));
    }
    let mut files = Vec::new();
    sources(&root().join("tests"), &mut files);
    for file in files {
        tests.append(&mut cited(&fs::read_to_string(&file).expect("a file")));
    }
    (code, tests)
}

fn missing(rules: &Rules, cited: &Rules) -> Vec<String> {
    rules.difference(cited).cloned().collect()
}

#[test]
fn every_rule_is_cited_and_no_other() {
    let (link, failover) = (stated("link.md"), stated("failover.md"));
    assert!(link.len() > 60, "{link:?}");
    let (code, tests) = citations();
    let all: Rules = link.union(&failover).cloned().collect();
    let cited: Rules = code.union(&tests).cloned().collect();
    let unknown = missing(&cited, &all);
    assert!(
        unknown.is_empty(),
        "cited, but there is no such rule: {unknown:?}"
    );
    let no_code = missing(&link, &code);
    let no_test = missing(&all, &tests);
    assert!(
        no_code.is_empty() && no_test.is_empty(),
        "not cited in the code: {no_code:?}\nnot cited in a test: {no_test:?}"
    );
}
