//! Inside the sockets crate an import never points to a higher floor.

use std::collections::BTreeMap;

use crate::crates::{Crate, SourceFile};
use crate::resolve::Import;
use crate::rules::{FLOORS, Rule, Violation};

pub fn check(krate: &Crate, imports: &[Import]) -> Vec<Violation> {
    let mut found: Vec<Violation> = imports.iter().filter_map(upward).collect();
    found.extend(homeless(krate));
    found
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| *floor == room)
}

fn upward(import: &Import) -> Option<Violation> {
    let Import { from, to, path, .. } = import;
    let allowed = match (floor(from), floor(to)) {
        (Some(from), Some(to)) => from >= to,
        // The root stands above all floors, and a module without a floor nowhere.
        (Some(_), None) => false,
        (None, _) => true,
    };
    (!allowed).then(|| Violation {
        rule: Rule::Floor,
        file: import.file.clone(),
        line: import.line,
        text: format!(
            "{path}: {from} may not import from {to}: floors, the lowest first: {}",
            FLOORS.join(", ")
        ),
    })
}

/// Top-level modules without a floor.
fn homeless(krate: &Crate) -> Vec<Violation> {
    let mut rooms: BTreeMap<&str, &SourceFile> = BTreeMap::new();
    for file in &krate.files {
        if let Some(room) = file.module.first()
            && floor(room).is_none()
        {
            let known = rooms.entry(room).or_insert(file);
            if file.module.len() < known.module.len() {
                *known = file;
            }
        }
    }
    let violation = |(room, file): (&str, &SourceFile)| Violation {
        rule: Rule::Floor,
        file: file.path.clone(),
        line: 1,
        text: format!(
            "the module {room} stands on no floor: {} are the rooms",
            FLOORS.join(", ")
        ),
    };
    rooms.into_iter().map(violation).collect()
}
