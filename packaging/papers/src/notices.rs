//! The licences of what other people have written, as their packages bring them: most ask that their text goes with
//! every copy of the program.

use std::collections::BTreeMap;
use std::fs;

use crate::components::{Components, Package};

const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

pub fn make(components: &Components) -> Result<String, String> {
    let others = components.packages.iter();
    let others: Vec<&Package> = others.filter(|package| package.source.is_some()).collect();
    let mut notices =
        "These programs contain the following packages of other authors.\n\n".to_owned();
    // Many packages have the same text.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in others {
        notices += &format!("{}: {}\n", package.label(), package.license());
        for text in licences(package)? {
            texts.entry(text).or_default().push(package.label());
        }
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, who)| (who, text)).collect();
    texts.sort();
    for (packages, text) in texts {
        let line = "-".repeat(100);
        notices += &format!("\n{line}\n{}:\n\n{text}\n", packages.join(", "));
    }
    Ok(notices)
}

/// The texts in the package's folder.
fn licences(package: &Package) -> Result<Vec<String>, String> {
    let folder = package.manifest_path.parent().ok_or("no folder")?;
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_uppercase();
        if path.is_file() && BEGINNINGS.iter().any(|begin| name.starts_with(begin)) {
            files.push(path);
        }
    }
    files.sort();
    let read = |path| fs::read_to_string(path).map(|text| text.trim_end().replace('\r', ""));
    files
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_others_are_named_with_their_texts() {
        let components = Components::of(&["ulsock_preload".to_owned()]).unwrap();
        let notices = make(&components).unwrap();
        assert!(notices.contains("\nredhook 2.0.0: "));
        assert!(notices.contains("Permission is hereby granted, free of charge"));
        assert!(!notices.contains("\nulsock_sockets "));
    }
}
