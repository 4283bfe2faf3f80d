//! `ulsock doctor -- PROGRAM`: what would and would not be accelerated of a program, and why. It is looked at, never run.

pub mod calls;
pub mod elf;
mod find;
pub mod libraries;
mod rights;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use os::plain::plain;
use rendezvous::config::{Config, Who};
use rustix::process::geteuid;

use super::findings::Findings;
use super::rules;
use elf::{Elf, Kind};
use libraries::View;

/// Needs the library to be there, and a program that is told apart.
pub fn examine(findings: &mut Findings, program: &[OsString]) {
    let name = program.first().cloned().unwrap_or_default();
    findings.title("Program");
    let steps = match find::steps(&name) {
        Ok(steps) => steps,
        Err(why) => return findings.bad("file", &why),
    };
    for because in steps.iter().filter_map(|step| step.because.as_ref()) {
        findings.tell("script", because);
    }
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return;
    };
    let real = last.path.canonicalize().unwrap_or(last.path.clone());
    findings.tell("file", &file_text(&last.path, &real));
    if let Some(elf) = kind(findings, &real, Found::OnDisk) {
        rights_of(findings, &real);
        let libraries = libraries::of(&elf, &real, &View::own());
        calls::tell(findings, &elf, &libraries);
    }
    let who = Who {
        file: real.as_os_str().as_bytes().to_vec(),
        started_as: first.path.as_os_str().as_bytes().to_vec(),
        uid: geteuid().as_raw(),
    };
    let variables: Vec<_> = rules::own_variables().collect();
    let config = Config::of(variables.iter().cloned(), || who);
    rules::tell(findings, config.as_ref(), &variables);
}

/// Why a program cannot load the library; `None` if it can, or if nobody can say.
pub fn obstacle(program: &OsStr) -> Option<String> {
    let steps = find::steps(program).ok()?;
    let real = steps.last()?.path.canonicalize().ok()?;
    let file = File::open(&real).ok()?;
    match judge(elf::read(&file, &calls::asked()), Found::OnDisk) {
        Err(problem) => Some(problem),
        Ok(_) => rights::gained(&real),
    }
}

fn file_text(path: &Path, real: &Path) -> String {
    let shown = |path: &Path| plain(path.as_os_str().as_bytes());
    match path == real {
        true => shown(path),
        false => format!("{} ({})", shown(path), shown(real)),
    }
}

/// How a program is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    OnDisk,
    /// Its loader has loaded it, wherever that is: it may have another root than we.
    Running,
}

/// What kind of program it is; told if it can load the library.
pub fn kind(findings: &mut Findings, path: &Path, found: Found) -> Option<Elf> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            let problem =
                format!("cannot be read ({error}): run the doctor as root, or as its owner");
            findings.tell("kind", &problem);
            return None;
        }
    };
    match judge(elf::read(&file, &calls::asked()), found) {
        Ok((text, elf)) => {
            findings.well("kind", &text);
            Some(elf)
        }
        Err(problem) => {
            findings.bad("kind", &problem);
            None
        }
    }
}

const PEERS: &str = "its peers see `no-peer`";

fn judge(kind: Option<Kind>, found: Found) -> Result<(String, Elf), String> {
    let elf = match kind {
        Some(Kind::Bits64(elf)) => elf,
        Some(Kind::Bits32) => {
            return Err(
                "a 32-bit program, which cannot load the 64-bit library: use a 64-bit build"
                    .to_owned(),
            );
        }
        Some(Kind::Foreign(machine)) => {
            return Err(format!(
                "a program for another processor (ELF machine {machine}): ulsock is for x86-64; use a build for that"
            ));
        }
        None => {
            return Err("not a program that the kernel runs by itself: give one, or a script that begins with #!".to_owned());
        }
    };
    if let Some(Err(why)) = &elf.go {
        return Err(format!(
            "a Go program, which calls the kernel past libc, and {why}: all its connections stay on kernel TCP ({PEERS}). \
             Programs that `go build` makes with the package net, and cgo, can be served"
        ));
    }
    match elf.interpreter.as_deref() {
        None => Err(format!(
            "static: no loader runs, so no library is loaded, and all connections stay on kernel TCP ({PEERS}): \
             link it dynamically with glibc"
        )),
        Some(loader) if loader.contains("ld-musl") => Err(format!(
            "linked with musl ({loader}); the library needs glibc, and with it musl's loader does not start the program: \
             use a build for glibc"
        )),
        Some(loader) if !loader.ends_with("ld-linux-x86-64.so.2") => Err(format!(
            "its loader is {}, not glibc's: use a build for glibc",
            plain(loader.as_bytes())
        )),
        Some(loader) if found == Found::OnDisk && !Path::new(loader).exists() => Err(format!(
            "its loader {} is missing here, so it does not start at all: install glibc there",
            plain(loader.as_bytes())
        )),
        Some(_) => {
            let go = elf.go.as_ref().and_then(|go| go.as_ref().ok());
            let go = go.map_or(String::new(), |go| {
                let version = go.version;
                format!("; by Go ({version}), whose calls past libc are led to it")
            });
            let text = format!("for x86-64, linked with glibc: the library can be loaded{go}");
            Ok((text, elf))
        }
    }
}

fn rights_of(findings: &mut Findings, path: &Path) {
    match rights::gained(path) {
        None => findings.well("rights", "those of the user who starts it"),
        Some(why) => findings.bad(
            "rights",
            &format!(
                "more than those of uid {}: {why}. The loader leaves the library out, or it is off; start it as the user \
                 whose rights it has, or take them away",
                geteuid().as_raw()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::Refusal;

    fn problem(elf: Elf) -> String {
        judge(Some(Kind::Bits64(elf)), Found::OnDisk).expect_err("a problem")
    }

    fn with_loader(loader: &str) -> Elf {
        Elf {
            interpreter: Some(loader.to_owned()),
            ..Elf::default()
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        let judged = |kind| judge(kind, Found::OnDisk);
        assert!(judged(None).is_err());
        assert!(judged(Some(Kind::Bits32)).unwrap_err().contains("32-bit"));
        let foreign = judged(Some(Kind::Foreign(183)));
        assert!(foreign.unwrap_err().contains("machine 183"));
        assert!(problem(Elf::default()).starts_with("static"));
        assert!(problem(with_loader("/lib/ld-musl-x86_64.so.1")).contains("musl"));
        assert!(problem(with_loader("/system/bin/linker64")).contains("not glibc's"));
        assert!(problem(with_loader("/no/ld-linux-x86-64.so.2")).contains("missing"));
        let go = Elf {
            go: Some(Err(Refusal::OwnThreads)),
            ..with_loader("/lib64/ld-linux-x86-64.so.2")
        };
        assert!(problem(go).contains("Go program"));
        let here = Kind::Bits64(with_loader("/lib64/ld-linux-x86-64.so.2"));
        assert!(judged(Some(here)).is_ok());
        let elsewhere = Kind::Bits64(with_loader("/no/ld-linux-x86-64.so.2"));
        assert!(judge(Some(elsewhere), Found::Running).is_ok());
    }
}
