//! Which packages of cargo are in the programs that are shipped: those that the named packages of the workspace reach
//! by ordinary and build dependencies on this platform. Asks `cargo metadata`, and Cargo.lock for checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_root: PathBuf,
}

#[derive(Clone, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub repository: Option<String>,
    pub manifest_path: PathBuf,
    /// None for those of the workspace.
    pub source: Option<String>,
}

impl Package {
    /// Its licences as an expression of SPDX; cargo once allowed a slash in it.
    pub fn license(&self) -> String {
        let text = self.license.as_deref().unwrap_or("NOASSERTION");
        text.replace('/', " OR ").replace("  ", " ")
    }

    pub fn label(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Packages in the order of their names, and what each depends on.
pub struct Components {
    pub packages: Vec<Package>,
    dependencies: BTreeMap<String, Vec<String>>,
    checksums: BTreeMap<(String, String), String>,
}

impl Components {
    pub fn of(roots: &[String]) -> Result<Components, String> {
        let metadata = metadata()?;
        let lock = metadata.workspace_root.join("Cargo.lock");
        let lock =
            fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        let dependencies: BTreeMap<_, _> = metadata.resolve.nodes.iter().map(shipped).collect();
        let mut waiting = Vec::new();
        for root in roots {
            let own =
                |package: &&Package| package.name == root.as_str() && package.source.is_none();
            let found = metadata.packages.iter().find(own);
            waiting.push(
                found
                    .ok_or_else(|| format!("the workspace has no package {root}"))?
                    .id
                    .clone(),
            );
        }
        let mut reached = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            waiting.extend(dependencies.get(&id).into_iter().flatten().cloned());
            if !reached.insert(id.clone()) {
                waiting.retain(|other| !reached.contains(other));
            }
        }
        let mut packages = metadata.packages;
        packages.retain(|package| reached.contains(&package.id));
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Components {
            packages,
            dependencies,
            checksums: checksums(&lock),
        })
    }

    /// Those that a package uses.
    pub fn dependencies(&self, package: &Package) -> &[String] {
        self.dependencies
            .get(&package.id)
            .map_or(&[], Vec::as_slice)
    }

    /// Of the archive that crates.io has, SHA-256 in hexadecimal digits.
    pub fn checksum(&self, package: &Package) -> Option<&str> {
        let key = (package.name.clone(), package.version.clone());
        self.checksums.get(&key).map(String::as_str)
    }
}

fn metadata() -> Result<Metadata, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = [
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        PLATFORM,
    ];
    let output = Command::new(cargo)
        .args(words)
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed: {said}"));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// What a package depends on when it is not tested.
fn shipped(node: &Node) -> (String, Vec<String>) {
    let ships = |kind: &Kind| kind.kind.as_deref() != Some("dev");
    let used = node
        .deps
        .iter()
        .filter(|dependency| dependency.dep_kinds.iter().any(ships));
    (
        node.id.clone(),
        used.map(|dependency| dependency.pkg.clone()).collect(),
    )
}

/// Of every package in a Cargo.lock that has one.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entries = lock.split("[[package]]").skip(1);
    let with_checksum = entries.filter_map(|entry| {
        let value = |name: &str| {
            let line = entry
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    with_checksum.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_those_that_are_shipped() {
        let components = Components::of(&["ulsock_preload".to_owned()]).unwrap();
        let find = |name: &str| components.packages.iter().find(|it| it.name == name);
        let libc = find("libc").expect("the library uses libc");
        assert_eq!(
            components.checksum(libc).map(str::len),
            Some(64),
            "SHA-256 of {}",
            libc.label()
        );
        assert_eq!(libc.license(), "MIT OR Apache-2.0");
        // Those of the command, and of tests.
        assert!(find("clap").is_none() && find("tempfile").is_none() && find("loom").is_none());
        assert!(Components::of(&["nothing".to_owned()]).is_err());
    }
}
