//! The environment of a program that runs on ulsock, and of one that must not.
//! `run` and `compare` start their programs through here.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rendezvous::config::{Config, ConfigError, ConfigFile, Who};
use rendezvous::rundir::RunDir;

use crate::failure::Failure;
use crate::install::{LIBRARY, TRACE_LIBRARY};

/// Reads the configuration as the library will, and refuses what it could not work with. `set`: variables that the
/// program gets instead of ours.
pub fn check_configuration(set: &[(&str, &str)]) -> Result<(), Failure> {
    let is_set = |name: &str| set.iter().any(|(other, _)| *other == name);
    let inherited = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_ours = name.starts_with("ULSOCK") && !is_set(&name);
        is_ours.then(|| (name, value.to_string_lossy().into_owned()))
    });
    let set = set
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let config = usable(Config::of(inherited.chain(set), Who::myself))?;
    if config.enabled {
        open_run_dir(&config)?;
    }
    Ok(())
}

pub fn configuration() -> Result<Config, Failure> {
    usable(Config::from_env())
}

/// Programs go on without a bad file; who types a command is told of it.
fn usable(config: Result<Config, ConfigError>) -> Result<Config, Failure> {
    let config = config.map_err(|error| Failure::setup(error.to_string()))?;
    match &config.file {
        ConfigFile::Refused(error) => {
            let way_out = "mend it, or set ULSOCK_CONFIG_FILE=none";
            Err(Failure::setup(format!("{error} ({way_out})")))
        }
        _ => Ok(config),
    }
}

pub fn open_run_dir(config: &Config) -> Result<RunDir, Failure> {
    let path = &config.run_dir;
    RunDir::open(path).map_err(|error| Failure::setup(format!("{}: {error}", path.display())))
}

/// `LD_PRELOAD` with `library` in front of what `current` holds.
pub fn with_library(library: &Path, current: Option<OsString>) -> Result<OsString, Failure> {
    if library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|&byte| is_separator(byte))
    {
        return Err(Failure::setup(format!(
            "{}: LD_PRELOAD cannot hold a path with a space or colon; set ULSOCK_LIB to a link elsewhere",
            library.display()
        )));
    }
    let mut value = library.as_os_str().to_owned();
    let others = without_library(current);
    if !others.is_empty() {
        value.push(":");
        value.push(others);
    }
    Ok(value)
}

/// The same with the recorder before the library: calls go through it first.
pub fn with_recorder(
    recorder: &Path,
    library: &Path,
    current: Option<OsString>,
) -> Result<OsString, Failure> {
    let mut value = with_library(recorder, None)?;
    value.push(":");
    value.push(with_library(library, current)?);
    Ok(value)
}

/// `LD_PRELOAD` without our libraries, wherever it was loaded from.
pub fn without_library(current: Option<OsString>) -> OsString {
    let current = current.unwrap_or_default();
    let others: Vec<&[u8]> = current
        .as_bytes()
        .split(|&byte| is_separator(byte))
        .filter(|path| is_foreign(path))
        .collect();
    OsString::from_vec(others.join(&b':'))
}

/// ld.so(8) splits `LD_PRELOAD` at spaces and colons, and knows no escape.
fn is_separator(byte: u8) -> bool {
    byte == b' ' || byte == b':'
}

fn is_foreign(path: &[u8]) -> bool {
    let is_ours = |name: &str| path.ends_with(name.as_bytes());
    !path.is_empty() && !is_ours(LIBRARY) && !is_ours(TRACE_LIBRARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(library: &str, current: Option<&str>) -> Option<OsString> {
        with_library(Path::new(library), current.map(OsString::from)).ok()
    }

    #[test]
    fn library_comes_first_and_once() {
        assert_eq!(
            with("/l/libulsock_preload.so", None).unwrap(),
            "/l/libulsock_preload.so"
        );
        assert_eq!(
            with(
                "/l/libulsock_preload.so",
                Some("a.so /old/libulsock_preload.so:b.so")
            )
            .unwrap(),
            "/l/libulsock_preload.so:a.so:b.so"
        );
    }

    #[test]
    fn the_recorder_stands_before_it() {
        let [recorder, library] = ["/l/libulsock_trace.so", "/l/libulsock_preload.so"];
        let current = "a.so:/old/libulsock_trace.so:/old/libulsock_preload.so";
        let value = with_recorder(
            Path::new(recorder),
            Path::new(library),
            Some(current.into()),
        );
        let expected = "/l/libulsock_trace.so:/l/libulsock_preload.so:a.so";
        assert_eq!(value.ok(), Some(expected.into()));
    }

    #[test]
    fn separators_in_the_path_are_refused() {
        assert!(with("/my dir/libulsock_preload.so", None).is_none());
        assert!(with("/my:dir/libulsock_preload.so", None).is_none());
    }
}
