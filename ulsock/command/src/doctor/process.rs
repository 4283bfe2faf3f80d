//! `ulsock doctor PID`: the same of a program that runs: whether the library is in it, with which settings, and what
//! its connections do. What /proc says of a process it has in part written itself: none of it is trusted.

mod connections;
mod state;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use os::plain::plain;
use rendezvous::config::{Config, ConfigError, Who, file};

use super::findings::Findings;
use super::program::elf::Elf;
use super::program::libraries::{self, View};
use super::program::{self, Found, calls};
use super::rules;
use crate::install::LIBRARY;

/// The most that is read of an entry of /proc.
const MOST: u64 = 32 << 20;
/// Of the auxiliary vector (getauxval(3)).
const AT_SECURE: u64 = 23;
const AT_EXECFN: u64 = 31;
const LONGEST_PATH: usize = 4096;

/// A process, looked at from outside.
pub struct Process {
    pid: u32,
    variables: Vec<(String, String)>,
    is_secure: bool,
    who: Who,
}

pub fn examine(findings: &mut Findings, pid: u32) {
    findings.title("Process");
    let process = match Process::of(pid) {
        Ok(process) => process,
        Err(why) => return findings.bad("process", &why),
    };
    findings.tell("program", &plain(&process.who.file));
    findings.tell("user", &format!("uid {}", process.who.uid));
    let elf = program::kind(findings, &process.entry("exe"), Found::Running);
    process.tell_library(findings, elf.is_some());
    state::tell(findings, &process);
    if let Some(elf) = elf {
        process.tell_calls(findings, &elf);
    }
    let config = process.config();
    rules::tell(findings, config.as_ref(), &process.variables);
    if let Ok(config) = config.as_ref() {
        connections::tell(findings, &process, config);
    }
}

impl Process {
    fn of(pid: u32) -> Result<Process, String> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let owner = match folder.metadata() {
            Ok(data) => data.uid(),
            Err(_) => {
                return Err(format!(
                    "no process {pid}: `ulsock top` lists those that have connections"
                ));
            }
        };
        let foreign = |error: std::io::Error| {
            format!(
                "{pid} cannot be looked into ({error}): run the doctor as uid {owner} or as root"
            )
        };
        let environment = read(&folder.join("environ")).map_err(foreign)?;
        let file = std::fs::read_link(folder.join("exe")).map_err(foreign)?;
        let auxv = read(&folder.join("auxv")).map_err(foreign)?;
        let started_as = auxiliary(&auxv, AT_EXECFN).and_then(|at| string_at(&folder, at));
        Ok(Process {
            pid,
            variables: variables(&environment),
            is_secure: auxiliary(&auxv, AT_SECURE).is_some_and(|value| value != 0),
            who: Who {
                file: file.as_os_str().as_bytes().to_vec(),
                started_as: started_as.unwrap_or_default(),
                uid: state::effective_user(&folder).unwrap_or(owner),
            },
        })
    }

    pub fn entry(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// A path of its own, as we reach it.
    pub fn within(&self, path: &Path) -> PathBuf {
        match self.other_root() {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// Nothing, if it has the same files as we.
    fn other_root(&self) -> Option<PathBuf> {
        let has_other = state::is_elsewhere(self, "mnt") || state::is_in_other_root(self);
        has_other.then(|| self.entry("root"))
    }

    fn tell_calls(&self, findings: &mut Findings, elf: &Elf) {
        let searched = self.variable("LD_LIBRARY_PATH").unwrap_or_default();
        match View::of_process(self.other_root().as_deref(), OsStr::new(searched)) {
            Ok(view) => {
                let libraries = libraries::of(elf, &self.path_in_its_root(), &view);
                calls::tell(findings, elf, &libraries);
            }
            Err(error) => {
                let problem = format!("cannot be looked at ({error}): run the doctor as root");
                findings.tell("libraries", &problem);
            }
        }
    }

    /// As it knows its file itself: where its root is a folder of ours, /proc names that, too.
    fn path_in_its_root(&self) -> PathBuf {
        let root = self.other_root().and_then(|root| root.read_link().ok());
        inside(&self.path_of_file(), root.as_deref())
    }

    fn path_of_file(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.who.file))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// As it has configured itself at its start, with the file as it is now.
    fn config(&self) -> Result<Config, ConfigError> {
        let is_ours = |(name, _): &&(String, String)| name.starts_with("ULSOCK");
        let mut variables: Vec<_> = self.variables.iter().filter(is_ours).cloned().collect();
        let named = self
            .variable(file::VARIABLE)
            .unwrap_or(file::DEFAULT)
            .to_owned();
        let path = self.within(Path::new(&named));
        if named != file::NONE && path != Path::new(&named) {
            let is_there = path.exists() || self.variable(file::VARIABLE).is_some();
            let path = path.to_string_lossy().into_owned();
            let value = if is_there {
                path
            } else {
                file::NONE.to_owned()
            };
            variables.retain(|(name, _)| name != file::VARIABLE);
            variables.push((file::VARIABLE.to_owned(), value));
        }
        if self.is_secure {
            return Ok(Config {
                enabled: false,
                ..Config::default()
            });
        }
        Config::of(variables.into_iter(), || self.who.clone())
    }

    fn tell_library(&self, findings: &mut Findings, can_load: bool) {
        let maps = read(&self.entry("maps")).unwrap_or_default();
        let maps = String::from_utf8_lossy(&maps);
        let mut mapped = maps.lines().filter(|line| line.contains(LIBRARY));
        if let Some(line) = mapped.next() {
            let path = line.find('/').map_or(LIBRARY, |at| &line[at..]);
            let path = plain(path.as_bytes());
            return match path.ends_with("(deleted)") {
                true => findings.tell(
                    "library",
                    &format!(
                        "{path}: loaded; another file is there now: restart the program to use that"
                    ),
                ),
                false => findings.well("library", &format!("{path}: loaded")),
            };
        }
        let named = self
            .variable("LD_PRELOAD")
            .filter(|list| list.contains(LIBRARY));
        let why = match (can_load, self.is_secure, named) {
            (false, ..) => return findings.tell("library", "not loaded, for the reason above"),
            (_, true, _) => "not loaded: the program has more rights than who started it (setuid, setgid or \
                             capabilities of its file): start it as the user whose rights it has"
                .to_owned(),
            (_, _, Some(list)) => format!(
                "not loaded, though LD_PRELOAD names it ({}): is the file there for this process, and readable for \
                 uid {}? The loader has said why on its stderr",
                plain(list.as_bytes()),
                self.who.uid
            ),
            _ => "not loaded: the program was started without it. It cannot be given to a program that runs: start \
                  it anew with `ulsock run -- PROGRAM`"
                .to_owned(),
        };
        findings.bad("library", &why);
    }
}

fn inside(path: &Path, root: Option<&Path>) -> PathBuf {
    match root.and_then(|root| path.strip_prefix(root).ok()) {
        Some(inside) => Path::new("/").join(inside),
        None => path.to_owned(),
    }
}

/// An entry of /proc, as far as it is not endless.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn variables(environment: &[u8]) -> Vec<(String, String)> {
    let of = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    environment
        .split(|byte| *byte == 0)
        .filter_map(of)
        .collect()
}

fn auxiliary(vector: &[u8], wanted: u64) -> Option<u64> {
    let number = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    let pair = |entry: &[u8]| Some((number(&entry[..8])?, number(&entry[8..])?));
    let mut pairs = vector.chunks_exact(16).filter_map(pair);
    pairs
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// A string in the memory of the process.
fn string_at(folder: &Path, at: u64) -> Option<Vec<u8>> {
    let memory = File::open(folder.join("mem")).ok()?;
    let mut bytes = vec![0; LONGEST_PATH];
    let n = memory.read_at(&mut bytes, at).ok()?;
    let text = bytes.get(..n)?;
    let end = text.iter().position(|byte| *byte == 0)?;
    Some(text[..end].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_as_in_its_root() {
        let told = |path, root: Option<&str>| inside(Path::new(path), root.map(Path::new));
        let file = Path::new("/bin/sleep");
        assert_eq!(told("/bin/sleep", None), file);
        assert_eq!(told("/bin/sleep", Some("/")), file);
        assert_eq!(told("/srv/root/bin/sleep", Some("/srv/root")), file);
        assert_eq!(told("/bin/sleep", Some("/srv/root")), file);
    }

    #[test]
    fn this_process_is_known_from_outside() {
        let process = Process::of(std::process::id()).unwrap();
        let mine = Who::myself();
        assert_eq!(process.who, mine);
        assert!(!process.is_secure);
        let path = process.variable("PATH").map(str::to_owned);
        assert_eq!(path, std::env::var("PATH").ok());
        assert_eq!(process.within(Path::new("/etc")), Path::new("/etc"));
    }

    #[test]
    fn who_is_not_there_is_named() {
        assert!(Process::of(u32::MAX).err().unwrap().contains("no process"));
    }

    #[test]
    fn broken_entries_do_no_harm() {
        assert_eq!(auxiliary(&[1, 2, 3], AT_SECURE), None);
        assert_eq!(
            variables(b"A=1\0\0B\0=\0C=\xff=2"),
            [
                ("A".to_owned(), "1".to_owned()),
                (String::new(), String::new()),
                ("C".to_owned(), "\u{fffd}=2".to_owned()),
            ]
        );
    }
}
