//! Which file runs when a program is named: found as execvp(3) finds it, and behind scripts their interpreters.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The kernel's own limits (fs/exec.c, include/uapi/linux/binfmts.h).
const MOST_SCRIPTS: usize = 5;
const LONGEST_LINE: u64 = 256;
/// What the C library looks in without the variable.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A file on the way to the one that runs.
pub struct Step {
    pub path: PathBuf,
    /// Why it is the next one; nothing for the one that was named.
    pub because: Option<String>,
}

/// All of them, the one that runs last; or why there is none.
pub fn steps(program: &OsStr) -> Result<Vec<Step>, String> {
    let mut steps = vec![Step {
        path: locate(program)?,
        because: None,
    }];
    while let Some(last) = steps.last() {
        let Some(next) = behind(&last.path)? else {
            break;
        };
        if steps.len() > MOST_SCRIPTS {
            return Err("scripts that are run by scripts, more than the kernel follows".to_owned());
        }
        steps.push(next);
    }
    Ok(steps)
}

fn locate(program: &OsStr) -> Result<PathBuf, String> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return check(path).map(|()| path.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join(path));
    let name = os::plain::plain(program.as_bytes());
    found
        .find(|path| check(path).is_ok())
        .ok_or_else(|| format!("no program {name} in PATH: install it, or give its path"))
}

fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let data = path
        .metadata()
        .map_err(|error| format!("{shown}: {error}"))?;
    if !data.is_file() {
        return Err(format!("{shown} is not a file: give the path of a program"));
    }
    access(path, Access::EXEC_OK).map_err(|error| {
        format!("{shown} cannot be executed ({error}): chmod +x, or run as another user")
    })
}

/// The interpreter, if it is a script.
fn behind(path: &Path) -> Result<Option<Step>, String> {
    let mut head = Vec::new();
    let file = File::open(path);
    // Who may execute a file need not be able to read it.
    let Ok(mut part) = file.map(|file| file.take(LONGEST_LINE)) else {
        return Ok(None);
    };
    if part.read_to_end(&mut head).is_err() || !head.starts_with(b"#!") {
        return Ok(None);
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line[2..]
        .split(|byte| *byte == b' ' || *byte == b'\t')
        .filter(|word| !word.is_empty());
    let shown = path.display();
    let Some(interpreter) = words.next().map(OsStr::from_bytes) else {
        return Err(format!(
            "{shown} begins with #! and names no interpreter: name one"
        ));
    };
    let because = format!("{shown} is a script ({})", os::plain::plain(line));
    let interpreter = Path::new(interpreter);
    let next = match interpreter.file_name() == Some(OsStr::new("env")) {
        true => program_of_env(words).map_or(Ok(interpreter.to_owned()), |name| locate(&name)),
        false => check(interpreter).map(|()| interpreter.to_owned()),
    };
    let path = next.map_err(|why| format!("{because}: {why}"))?;
    let because = Some(because);
    Ok(Some(Step { path, because }))
}

/// `env` becomes the program that it is given, behind its options and variables.
fn program_of_env<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<OsString> {
    let is_program = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    Some(OsStr::from_bytes(words.find(is_program)?).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn last(program: impl AsRef<OsStr>) -> Result<PathBuf, String> {
        let steps = steps(program.as_ref())?;
        Ok(steps.last().expect("a step").path.clone())
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(last("sh").unwrap().ends_with("sh"));
        assert_eq!(last("/bin/sh").unwrap(), Path::new("/bin/sh"));
        assert!(last("no-such-program").unwrap_err().contains("in PATH"));
        assert!(last("/no/such").unwrap_err().contains("No such file"));
        assert!(last("/etc").unwrap_err().contains("not a file"));
        assert!(last("/etc/passwd").unwrap_err().contains("chmod +x"));
    }

    #[test]
    fn behind_a_script_is_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let first = script(folder, "first", "#! /bin/sh -e\necho");
        assert_eq!(last(&first).unwrap(), Path::new("/bin/sh"));
        let second = script(folder, "second", &format!("#!{}\n", first.display()));
        assert_eq!(steps(second.as_os_str()).unwrap().len(), 3);
        let by_env = script(folder, "third", "#!/usr/bin/env -S A=1 sh -e\n");
        assert!(last(&by_env).unwrap().ends_with("sh"));
        let none = script(folder, "none", "#!\n");
        assert!(last(&none).unwrap_err().contains("names no interpreter"));
        let gone = script(folder, "gone", "#!/no/such/interpreter\n");
        assert!(last(&gone).unwrap_err().contains("No such file"));
        let own = folder.join("own");
        script(folder, "own", &format!("#!{}\n", own.display()));
        assert!(
            last(&own)
                .unwrap_err()
                .contains("more than the kernel follows")
        );
    }
}
