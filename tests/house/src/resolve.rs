//! From the paths in the code to imports between the top-level modules of a crate.

use std::path::PathBuf;

use crate::crates::{Crate, ModulePath};
use crate::paths::{Mention, Said, said};

/// The crate's root as the end of an import: what its own file defines.
pub const ROOT: &str = "the crate root";

/// One top-level module names something in another.
pub struct Import {
    pub from: String,
    pub to: String,
    pub file: PathBuf,
    pub line: usize,
    /// The path as it is written.
    pub path: String,
}

/// The imports between different top-level modules of a crate, its root included.
pub fn imports(krate: &Crate) -> Vec<Import> {
    let said = said(krate);
    let import = |mention: &Mention| {
        let from = top(&mention.module);
        // The root may pass on what rooms define: who uses it from there imports from the room.
        if from == ROOT && mention.passed_on {
            return None;
        }
        let to = said.owner(&mention.module, &mention.segments, 0)?;
        (from != to).then(|| Import {
            from,
            to,
            file: mention.file.clone(),
            line: mention.line,
            path: mention.segments.join("::"),
        })
    };
    said.mentions.iter().filter_map(import).collect()
}

fn top(module: &[String]) -> String {
    module.first().cloned().unwrap_or_else(|| ROOT.into())
}

/// More steps than any chain of `use` lines at a root has.
const STEPS: usize = 8;

impl Said {
    /// The top-level module that owns what `segments` names in `module`. `None` for another crate's, and for names
    /// that came by a `use` line, which is an import itself.
    fn owner(&self, module: &[String], segments: &[String], steps: usize) -> Option<String> {
        let path = self.absolute(module, segments)?;
        let names = self.names.get(&ModulePath::new())?;
        let Some(first) = path.first() else {
            return Some(ROOT.into());
        };
        if names.modules.contains(first) {
            return Some(first.clone());
        }
        if first == "*" || names.items.contains(first) {
            return Some(ROOT.into());
        }
        if let Some(defined) = self.macros.get(first) {
            return Some(top(defined));
        }
        if steps == STEPS {
            return None;
        }
        if let Some(target) = names.uses.get(first) {
            return self.owner(&[], target, steps + 1);
        }
        let defines = |glob: &&Vec<String>| {
            let module = self.absolute(&[], glob);
            let names = module.and_then(|module| self.names.get(&module));
            names.is_some_and(|names| {
                names.items.contains(first)
                    || names.modules.contains(first)
                    || names.uses.contains_key(first)
            })
        };
        let glob = names.globs.iter().find(defines)?;
        self.owner(&[], glob, steps + 1)
    }

    /// The path from the root. A path that starts with a plain name is known only at the root: elsewhere it starts at a
    /// child, at another crate or at what a `use` line has brought.
    fn absolute(&self, module: &[String], segments: &[String]) -> Option<ModulePath> {
        let mut path = module.to_vec();
        let mut rest = segments;
        match segments.first()?.as_str() {
            "crate" => {
                path.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {}
            name => {
                let names = self.names.get(&ModulePath::new())?;
                let known = module.is_empty()
                    && (names.modules.contains(name) || names.uses.contains_key(name));
                if !known {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            path.pop();
            rest = &rest[1..];
        }
        path.extend_from_slice(rest);
        Some(path)
    }
}
