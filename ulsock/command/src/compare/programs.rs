//! Where the programs of the scenarios are, and which Debian package has those that are missing.

use std::path::{Path, PathBuf};

/// A program or a header, and the package that it comes in.
pub struct Need {
    file: File,
    package: &'static str,
}

enum File {
    Program(&'static str),
    /// By its path in an include or library folder.
    Header(&'static str),
}

pub const fn need(program: &'static str, package: &'static str) -> Need {
    let file = File::Program(program);
    Need { file, package }
}

pub const fn need_header(header: &'static str, package: &'static str) -> Need {
    let file = File::Header(header);
    Need { file, package }
}

impl Need {
    fn is_met(&self) -> bool {
        match self.file {
            File::Program(program) => find(program).is_some(),
            File::Header(header) => has_header(header),
        }
    }
}

/// Below /usr/include, or in a library's own folder: Debian has one for each architecture.
fn has_header(header: &str) -> bool {
    let libraries = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let mut folders: Vec<PathBuf> = libraries.map(|entry| entry.path()).collect();
    folders.push("/usr/include".into());
    folders.iter().any(|folder| folder.join(header).is_file())
}

/// The program's path, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Where Debian has servers, which need not be in a user's PATH.
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.extend(postgres());
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

/// The same as an error for who needs it.
pub fn find_or_say(program: &str) -> Result<PathBuf, String> {
    find(program).ok_or_else(|| format!("{program} is not installed"))
}

/// The packages of what is missing.
pub fn missing(needs: &[Need]) -> Vec<&'static str> {
    let missing = needs.iter().filter(|need| !need.is_met());
    let mut packages: Vec<&str> = missing.map(|need| need.package).collect();
    packages.dedup();
    packages
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Debian keeps the programs of each version in a folder; the newest first.
fn postgres() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    versions
        .into_iter()
        .map(|version| version.join("bin"))
        .collect()
}
