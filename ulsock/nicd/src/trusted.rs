//! Reads a file that nicd stakes its trust on: the private key, the peers file. Whoever else could write
//! it could speak for this host, or let strangers in; so its owner and its mode are checked first.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// More than any honest file: 10,000 hosts take some 1.2 MB.
pub const LARGEST: u64 = 4 << 20;

/// Who may read the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    All,
    /// Its owner; and its group, if it belongs to root: so systemd hands credentials to a service (by an
    /// access list, which shows as rights of the group), and so keys are given to system users.
    Few,
}

#[derive(Debug)]
pub enum Untrusted {
    Unreadable(io::Error),
    NotAFile,
    TooLarge,
    Owner(u32),
    Mode(u32),
    /// What the mode is, though nobody else should read the file.
    Open(u32),
    NotText,
}

/// Also through a symbolic link: what counts is the file that is read.
pub fn read(path: &Path, readers: Readers) -> Result<String, Untrusted> {
    read_of(path, readers, None)
}

/// Also if it belongs to `writer`, whom we become.
pub fn read_of(path: &Path, readers: Readers, writer: Option<u32>) -> Result<String, Untrusted> {
    let file = File::options()
        .read(true)
        // Nor does a FIFO make us wait.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(Untrusted::Unreadable)?;
    check(&file, readers, writer)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(Untrusted::Unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Untrusted::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| Untrusted::NotText)
}

fn check(file: &File, readers: Readers, writer: Option<u32>) -> Result<(), Untrusted> {
    let about = file.metadata().map_err(Untrusted::Unreadable)?;
    let mode = about.mode() & 0o7777;
    let ours = [0, rustix::process::geteuid().as_raw()];
    let hidden = match about.uid() {
        0 => 0o037,
        _ => 0o077,
    };
    if !about.is_file() {
        Err(Untrusted::NotAFile)
    } else if !ours.contains(&about.uid()) && writer != Some(about.uid()) {
        Err(Untrusted::Owner(about.uid()))
    } else if mode & 0o022 != 0 {
        Err(Untrusted::Mode(mode))
    } else if readers == Readers::Few && mode & hidden != 0 {
        Err(Untrusted::Open(mode))
    } else {
        Ok(())
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untrusted::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Untrusted::NotAFile => f.write_str("is not a plain file"),
            Untrusted::TooLarge => write!(f, "is larger than {} MiB", LARGEST >> 20),
            Untrusted::Owner(uid) => write!(
                f,
                "belongs to uid {uid}: it must be root's or the user's that nicd runs as"
            ),
            Untrusted::Mode(mode) => {
                write!(f, "has mode {mode:04o}: others can write it (chmod go-w)")
            }
            Untrusted::Open(mode) => {
                write!(f, "has mode {mode:04o}: others can read it (chmod 600)")
            }
            Untrusted::NotText => f.write_str("is not text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn read_with(mode: u32, readers: Readers) -> Result<String, Untrusted> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        read(&path, readers)
    }

    #[test]
    fn what_others_can_write_is_not_trusted() {
        for mode in [0o620, 0o602, 0o666] {
            for readers in [Readers::All, Readers::Few] {
                assert!(matches!(read_with(mode, readers), Err(Untrusted::Mode(m)) if m == mode));
            }
        }
        assert_eq!(read_with(0o644, Readers::All).unwrap(), "text");
    }

    #[test]
    fn a_secret_that_others_can_read_is_none() {
        for mode in [0o604, 0o644, 0o601] {
            assert!(matches!(read_with(mode, Readers::Few), Err(Untrusted::Open(m)) if m == mode));
        }
        assert_eq!(read_with(0o600, Readers::Few).unwrap(), "text");
        let roots = rustix::process::geteuid().is_root();
        assert_eq!(read_with(0o640, Readers::Few).is_ok(), roots);
    }

    #[test]
    fn neither_a_folder_nor_a_fifo_nor_bytes_nor_a_flood() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: &Path| read(path, Readers::All);
        assert!(matches!(read(folder.path()), Err(Untrusted::NotAFile)));
        let path = folder.path().join("file");
        assert!(matches!(read(&path), Err(Untrusted::Unreadable(_))));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(read(&path), Err(Untrusted::NotText)));
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(matches!(read(&path), Err(Untrusted::TooLarge)));
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        assert!(matches!(read(&path), Err(Untrusted::NotAFile)));
    }
}
