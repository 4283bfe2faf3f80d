//! Where ulsock's files lie: the preload library, and the small programs behind `compare`.
//! In a cargo checkout they are built on demand; an installed ulsock only looks.

mod checkout;

use std::path::{Path, PathBuf};

use checkout::Checkout;

use crate::failure::Failure;

pub const LIBRARY: &str = "libulsock_preload.so";
/// The recorder of `ulsock trace`.
pub const TRACE_LIBRARY: &str = "libulsock_trace.so";

/// An installation, seen from the running executable.
pub struct Install {
    /// Folders to look in, best first.
    folders: Vec<PathBuf>,
    checkout: Option<Checkout>,
}

impl Install {
    pub fn locate() -> Result<Install, Failure> {
        let executable = std::env::current_exe()
            .map_err(|error| Failure::setup(format!("cannot find myself: {error}")))?;
        let here = executable.parent().unwrap_or(Path::new("/"));
        let folders = ["", "../lib/ulsock", "../lib"]
            .map(|folder| here.join(folder))
            .to_vec();
        Ok(Install {
            folders,
            checkout: Checkout::around(here),
        })
    }

    /// Builds what is missing, when this is a checkout; `cargo run` also brings it up to date.
    pub fn prepare(&self, files: &[&str]) -> Result<(), Failure> {
        match &self.checkout {
            Some(checkout)
                if checkout.under_cargo_run
                    || files.iter().any(|name| self.look_for(name).is_none()) =>
            {
                checkout.build()
            }
            _ => Ok(()),
        }
    }

    /// The preload library; `ULSOCK_LIB` overrules the search.
    pub fn library(&self) -> Result<PathBuf, Failure> {
        match named_library() {
            // Links are kept: one may be there because LD_PRELOAD cannot hold the true path.
            Some(path) => std::path::absolute(&path)
                .and_then(|library| library.metadata().map(|_| library))
                .map_err(|error| Failure::setup(format!("ULSOCK_LIB={}: {error}", path.display()))),
            None => self.find(LIBRARY),
        }
    }

    /// A file of the installation.
    pub fn find(&self, name: &str) -> Result<PathBuf, Failure> {
        self.look_for(name).ok_or_else(|| {
            let places: Vec<String> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
            Failure::setup(format!(
                "{name} is in none of {}: install it there (in a checkout: cargo build --release -p ulsock_preload -p ulsock_trace -p benches)",
                places.join(", ")
            ))
        })
    }

    fn look_for(&self, name: &str) -> Option<PathBuf> {
        self.folders
            .iter()
            .find_map(|folder| folder.join(name).canonicalize().ok())
    }
}

fn named_library() -> Option<PathBuf> {
    std::env::var_os("ULSOCK_LIB")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}
