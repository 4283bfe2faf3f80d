//! The kernel module's C: neither the includes of its files nor the calls between its `.c` files run in a circle. A
//! function in C is found by its shape: at the outermost level, a name, parentheses and a body in braces.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cycles::{Graph, circles};
use crate::length::file_length;
use crate::rules::{C_FOLDER, Rule, Violation};

pub fn check(root: &Path) -> Vec<Violation> {
    let files: Vec<CFile> = read(root);
    let mut found: Vec<Violation> = files
        .iter()
        .filter_map(|file| file_length(&file.path, &file.text))
        .collect();
    let include = |file: &CFile| -> Vec<Arrow> {
        let lines = file.text.lines().enumerate();
        lines
            .filter_map(|(at, line)| Some(file.arrow(included(line)?, at + 1, line.trim())))
            .collect()
    };
    found.extend(in_circles(files.iter().flat_map(include).collect()));
    found.extend(in_circles(calls(&files)));
    found
}

struct CFile {
    name: String,
    path: PathBuf,
    text: String,
}

/// One file needs another.
struct Arrow {
    from: String,
    to: String,
    file: PathBuf,
    line: usize,
    what: String,
}

impl CFile {
    fn arrow(&self, to: &str, line: usize, what: &str) -> Arrow {
        Arrow {
            from: self.name.clone(),
            to: to.to_owned(),
            file: self.path.clone(),
            line,
            what: what.to_owned(),
        }
    }
}

fn read(root: &Path) -> Vec<CFile> {
    let Ok(entries) = fs::read_dir(root.join(C_FOLDER)) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.expect("an entry of a folder").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name.ends_with(".c") || name.ends_with(".h"));
    names.sort();
    let file = |name: String| {
        let path = Path::new(C_FOLDER).join(&name);
        let text = fs::read_to_string(root.join(&path)).expect("a source file");
        CFile { name, path, text }
    };
    names.into_iter().map(file).collect()
}

/// The file that a line `#include "file"` names.
fn included(line: &str) -> Option<&str> {
    let rest = line
        .trim_start()
        .strip_prefix('#')?
        .trim_start()
        .strip_prefix("include")?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

fn in_circles(arrows: Vec<Arrow>) -> Vec<Violation> {
    let mut graph = Graph::new();
    for arrow in arrows.iter().filter(|arrow| arrow.from != arrow.to) {
        graph
            .entry(arrow.from.clone())
            .or_default()
            .insert(arrow.to.clone());
    }
    let mut found = Vec::new();
    for circle in circles(&graph) {
        let names: Vec<&str> = circle.iter().map(String::as_str).collect();
        let inside = |arrow: &&Arrow| {
            arrow.from != arrow.to && circle.contains(&arrow.from) && circle.contains(&arrow.to)
        };
        for Arrow {
            from,
            to,
            file,
            line,
            what,
        } in arrows.iter().filter(inside)
        {
            found.push(Violation {
                rule: Rule::Cycle,
                file: file.clone(),
                line: *line,
                text: format!(
                    "{what}: {from} needs {to} in a cycle of files: {}",
                    names.join(", ")
                ),
            });
        }
    }
    found
}

/// Where a `.c` file names what another one defines for all.
fn calls(files: &[CFile]) -> Vec<Arrow> {
    let sources = || files.iter().filter(|file| file.name.ends_with(".c"));
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for file in sources() {
        owners.extend(
            defined(&words(&file.text))
                .into_iter()
                .map(|name| (name, file.name.as_str())),
        );
    }
    let mut arrows = Vec::new();
    for file in sources() {
        for (word, line) in words(&file.text) {
            if let Some(owner) = owners.get(&word) {
                arrows.push(file.arrow(owner, line, &word));
            }
        }
    }
    arrows
}

/// The functions and variables that are not `static`.
fn defined(words: &[(String, usize)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut hidden = false;
    let mut name: Option<&str> = None;
    for pair in words.windows(2) {
        let (word, next) = (pair[0].0.as_str(), pair[1].0.as_str());
        let is_name = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        match word {
            "{" | "(" => {
                if depth == 0 && word == "{" && !hidden {
                    found.extend(name.map(str::to_owned));
                }
                depth += 1;
            }
            "}" | ")" => depth -= 1,
            "static" | "typedef" if depth == 0 => hidden = true,
            _ if depth == 0 && is_name && ["(", "=", "["].contains(&next) && name.is_none() => {
                name = Some(word)
            }
            _ => {}
        }
        if depth == 0 && (word == ";" || word == "}") {
            (hidden, name) = (false, None);
        }
    }
    found
}

/// The words and signs of C code with their lines, without comments, literals and lines of the preprocessor.
fn words(text: &str) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '#' => directive(rest),
            '"' | '\'' => literal(rest, first),
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
                let length = rest.find(word).unwrap_or(rest.len());
                found.push((rest[..length].to_owned(), line));
                length
            }
            _ => {
                if !first.is_whitespace() {
                    found.push((first.to_string(), line));
                }
                first.len_utf8()
            }
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of a line of the preprocessor with those that continue it.
fn directive(rest: &str) -> usize {
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        length += line.len();
        if !line.trim_end().ends_with('\\') {
            break;
        }
    }
    length
}

fn literal(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
