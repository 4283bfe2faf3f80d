//! The cargo checkout that this executable was built in, if there is one.
//! `cargo run` builds only the command: the library and the programs are built from here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

pub struct Checkout {
    workspace: PathBuf,
    target: PathBuf,
    profile: OsString,
    /// Started by `cargo run`, which wants what it starts to be up to date.
    pub under_cargo_run: bool,
}

impl Checkout {
    /// `folder` holds the executable: `<target>/<profile>`.
    pub fn around(folder: &Path) -> Option<Checkout> {
        let target = folder.parent()?;
        let from_cargo = cargo_run_workspace();
        let under_cargo_run = from_cargo.is_some();
        let workspace = from_cargo
            .or_else(|| target.parent().map(Path::to_owned))
            .filter(|path| is_ours(path))?;
        Some(Checkout {
            workspace,
            target: target.to_owned(),
            profile: folder.file_name()?.to_owned(),
            under_cargo_run,
        })
    }

    pub fn build(&self) -> Result<(), Failure> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Cargo calls the folder of its `dev` profile `debug`.
        let profile = if self.profile == "debug" {
            "dev".into()
        } else {
            self.profile.clone()
        };
        cargo
            .args([
                "build",
                "-p",
                "ulsock_preload",
                "-p",
                "ulsock_trace",
                "-p",
                "benches",
                "--profile",
            ])
            .arg(&profile);
        cargo
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(&self.workspace);
        // The program's output belongs to the program: cargo speaks on stderr only.
        cargo.stdin(Stdio::null()).stdout(Stdio::null());
        eprintln!(
            "ulsock: building its library and programs (cargo build --profile {} -p ulsock_preload -p ulsock_trace -p benches)",
            profile.to_string_lossy()
        );
        let status = cargo
            .status()
            .map_err(|error| Failure::setup(format!("cannot start cargo: {error}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::setup(
                "cargo could not build the library (see above)",
            )),
        }
    }
}

/// The workspace, when `cargo run` started us. `CARGO` alone also means `cargo test` and its children;
/// `cargo run` names our own package.
fn cargo_run_workspace() -> Option<PathBuf> {
    std::env::var_os("CARGO")?;
    let package = std::env::var_os("CARGO_PKG_NAME")?;
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let manifest = (package == env!("CARGO_PKG_NAME")).then_some(manifest)?;
    workspace_around(&manifest)
}

/// However deep in it the package lies.
fn workspace_around(package: &Path) -> Option<PathBuf> {
    let found = package.ancestors().find(|folder| is_ours(folder));
    found.map(Path::to_owned)
}

fn is_ours(workspace: &Path) -> bool {
    workspace.join("Cargo.toml").is_file() && workspace.join("preload/Cargo.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_run_names_leads_to_the_workspace() {
        let workspace = workspace_around(Path::new(env!("CARGO_MANIFEST_DIR")));
        let workspace = workspace.expect("a workspace");
        assert!(workspace.join("preload/src/lib.rs").is_file());
        assert!(workspace.join("benches/Cargo.toml").is_file());
        assert_eq!(workspace_around(Path::new("/")), None);
    }
}
