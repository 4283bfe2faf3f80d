//! The configuration file, as far as it is a file: where it is, whether it may be believed, and its text.
//!
//! It is read at load by the program that the library lives in: without a file that costs one open that fails. Who can
//! write the file can choose where programs write their logs and whom they meet, so it is only believed if root or the
//! process's own user alone can write it.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, CWD, Mode, OFlags, access, fstat, openat};
use rustix::io::{self, Errno};

use super::toml::Fault;
use os::fds::Transient;
use os::is_regular;

/// Where it is, if no variable says otherwise.
pub const DEFAULT: &str = "/etc/ulsock.toml";
/// The variable that does.
pub const VARIABLE: &str = "ULSOCK_CONFIG_FILE";
/// In place of a path: no file is read.
pub const NONE: &str = "none";
/// The most bytes that it may have.
const MOST: u64 = 64 << 10;
const OTHERS_MAY_WRITE: u32 = 0o022;
const OWN_FDS: &str = "/proc/self/fd";

/// Why the file cannot be used; nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub path: PathBuf,
    /// 0: the file as a whole.
    pub line: u32,
    pub problem: String,
}

impl FileError {
    pub(super) fn at(path: &Path, fault: Fault) -> FileError {
        FileError {
            path: path.to_owned(),
            line: fault.line,
            problem: fault.problem,
        }
    }

    fn whole(path: &Path, problem: impl Into<String>) -> FileError {
        let problem = problem.into();
        FileError::at(path, Fault { line: 0, problem })
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            0 => write!(f, "{path}: {}", self.problem),
            line => write!(f, "{path}, line {line}: {}", self.problem),
        }
    }
}

pub(super) fn check_name(value: &str) -> Result<(), &'static str> {
    match value == NONE || value.starts_with('/') {
        true => Ok(()),
        false => Err("the absolute path of a file, or none"),
    }
}

/// Not in a program that has more rights than who has started it: nobody shall choose by its messages, or by the time
/// that it takes, what such a program reads.
pub(super) fn may_be_read() -> bool {
    // SAFETY: takes and returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 }
}

/// The file at `path`; `None`: there is none, and `may_miss` says that there need not be.
pub(super) fn find(path: &Path, may_miss: bool) -> Result<Option<Transient>, FileError> {
    match open(path) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::NOTDIR) if may_miss => Ok(None),
        Err(errno) => {
            let problem =
                format!("cannot be opened ({errno}): let this user read it, or remove it");
            Err(FileError::whole(path, problem))
        }
    }
}

/// Its text, if a process of this user may believe it.
pub(super) fn text(file: &Transient, path: &Path, uid: u32) -> Result<String, FileError> {
    check(file, uid).map_err(|problem| FileError::whole(path, problem))?;
    let bytes = read_bounded(file, MOST).map_err(|errno| {
        let problem = format!("cannot be read ({errno}): make it {MOST} bytes at most");
        FileError::whole(path, problem)
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count() as u32;
        let problem = "a byte that is not UTF-8: write it in UTF-8".to_owned();
        FileError::at(path, Fault { line, problem })
    })
}

/// What is at the path, to be read if it is a plain file; anything else is only there to be looked at, for to open it could
/// do anything: a watchdog begins to run, a tape rewinds. Who chose the path may have fewer rights than we.
pub(super) fn open(path: &Path) -> io::Result<Transient> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat(CWD, path, flags, Mode::empty()).map(Transient::new)?;
    if !is_regular(&fstat(&found)?) {
        return Ok(found);
    }
    let itself = format!("{OWN_FDS}/{}", found.as_raw_fd());
    match open_to_read(Path::new(&itself)) {
        Err(Errno::NOENT | Errno::NOTDIR) if !has_proc() => open_to_read(path),
        opened => opened,
    }
}

/// Whatever is there by now, this neither waits for it nor makes it our terminal.
fn open_to_read(path: &Path) -> io::Result<Transient> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map(Transient::new)
}

/// A program in a root of its own may be without. It only reads its own file there: who looks into other processes needs it.
fn has_proc() -> bool {
    let missing = matches!(
        access(OWN_FDS, Access::EXISTS),
        Err(Errno::NOENT | Errno::NOTDIR)
    );
    !missing
}

/// May it be believed by this user?
fn check(file: &Transient, uid: u32) -> Result<(), String> {
    let stat = fstat(file).map_err(|errno| errno.to_string())?;
    if !is_regular(&stat) {
        return Err("is not a plain file: remove it".to_owned());
    }
    let owner = stat.st_uid;
    if owner != 0 && owner != uid {
        return Err(format!(
            "belongs to uid {owner}: give it to root (chown root)"
        ));
    }
    if stat.st_mode & OTHERS_MAY_WRITE != 0 {
        return Err("can be written by others: forbid that (chmod go-w)".to_owned());
    }
    match stat.st_size as u64 {
        size if size > MOST => Err(format!("has {size} bytes: make it {MOST} at most")),
        _ => Ok(()),
    }
}

/// All of it; EFBIG if that is more than `most`, whatever its size was a moment ago.
pub(super) fn read_bounded(file: impl AsFd, most: u64) -> io::Result<Vec<u8>> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match io::read(&file, &mut part) {
            Ok(0) => return Ok(bytes),
            Ok(n) => bytes.extend_from_slice(part.get(..n).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if bytes.len() as u64 > most {
            return Err(Errno::FBIG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::geteuid;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn load(path: &Path, may_miss: bool) -> Result<Option<String>, FileError> {
        let found = find(path, may_miss)?;
        let text = found.map(|file| text(&file, path, geteuid().as_raw()));
        text.transpose()
    }

    fn problem(path: &Path) -> String {
        load(path, true).expect_err("refused").to_string()
    }

    #[test]
    fn a_good_file_is_read_and_a_missing_one_may_miss() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ulsock.toml");
        assert_eq!(load(&path, true), Ok(None));
        assert!(load(&path, false).is_err());
        fs::write(&path, "# nothing").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(load(&path, true), Ok(Some("# nothing".to_owned())));
    }

    #[test]
    fn what_others_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ulsock.toml");
        fs::write(&path, "").unwrap();
        for mode in [0o664, 0o646, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(problem(&path).contains("chmod go-w"), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let file = open(&path).unwrap();
        let me = geteuid().as_raw();
        assert_eq!(check(&file, me), Ok(()));
        let by_another = check(&file, me + 1);
        assert_eq!(by_another.is_err(), me != 0, "{by_another:?}");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &fifo, kind, Mode::from_raw_mode(0o600), 0).unwrap();
        for path in [folder.path(), &fifo, Path::new("/dev/zero")] {
            assert!(problem(path).contains("not a plain file"), "{path:?}");
            let file = open(path).unwrap();
            assert_eq!(
                read_bounded(&file, MOST),
                Err(Errno::BADF),
                "{path:?} was opened"
            );
        }
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ulsock.toml");
        fs::write(&path, vec![b'#'; MOST as usize + 1]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(problem(&path).contains("bytes: make it"));
        fs::write(&path, b"# a\n# \xff\n").unwrap();
        assert!(problem(&path).contains("line 2: a byte that is not UTF-8"));
        assert_eq!(read_bounded(open(&path).unwrap(), 7), Err(Errno::FBIG));
    }
}
