//! The last good set of peers on disk, for when the source is away. It is a peers file, with the origin of each line behind
//! it; nobody but its owner can read or write it, and it is checked like a peers file when it is read.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::peers::{BadPeers, Peers};
use crate::trusted::{self, Readers};

use super::sift::Last;

/// Where the last good set of one source lies.
#[derive(Clone, Debug)]
pub struct Saved {
    path: PathBuf,
    /// In the first line: what another source has said is not used.
    title: String,
    /// Whom the daemon becomes at its start.
    writer: Option<u32>,
}

/// Why there is nothing to be used.
#[derive(Debug)]
pub enum Unsaved {
    Bad(BadPeers),
    /// It is of another source, or of somebody else.
    Other,
}

impl Saved {
    pub fn new(path: &Path, title: &str) -> Saved {
        Saved {
            path: path.to_owned(),
            title: format!("# Peers of {title}, as nicd has saved them"),
            writer: None,
        }
    }

    /// It is this user who goes on writing it, and may have written it before.
    pub fn written_by(self, writer: Option<u32>) -> Saved {
        Saved { writer, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines, and how old they are.
    pub fn load(&self) -> Result<(Peers, Last, Duration), Unsaved> {
        let text = trusted::read_of(&self.path, Readers::Few, self.writer);
        let text = text.map_err(|why| Unsaved::Bad(BadPeers::Untrusted(why)))?;
        let mut lines = text.lines();
        if lines.next() != Some(&self.title) {
            return Err(Unsaved::Other);
        }
        let peers = Peers::parse(&text).map_err(|why| Unsaved::Bad(BadPeers::Faults(why)))?;
        let entry = |line: &str| {
            let (line, origin) = line.split_once(" # ")?;
            Some((origin.to_owned(), line.to_owned()))
        };
        let written = fs::metadata(&self.path).and_then(|about| about.modified());
        let age = written.ok().and_then(|written| written.elapsed().ok());
        Ok((
            peers,
            lines.filter_map(entry).collect(),
            age.unwrap_or_default(),
        ))
    }

    /// It takes the place of the old one as a whole, or not at all.
    pub fn store(&self, lines: &Last) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        self.make(folder)?;
        let unfinished = self.unfinished();
        // Of a daemon that was killed meanwhile.
        let _ = fs::remove_file(&unfinished);
        let written = self
            .write(&unfinished, lines)
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .and_then(|()| File::open(folder)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// A folder that is there already, whoever it belongs to, is left as it is.
    fn make(&self, folder: &Path) -> io::Result<()> {
        if folder.exists() {
            return Ok(());
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        match self.writer {
            Some(writer) => chown(folder, Some(writer), None),
            None => Ok(()),
        }
    }

    /// Before the daemon gives up the right to do it for the one whom it becomes.
    pub fn prepare(&self) -> io::Result<()> {
        self.path
            .parent()
            .map_or(Ok(()), |folder| self.make(folder))
    }

    fn write(&self, path: &Path, lines: &Last) -> io::Result<()> {
        let mut text = format!("{}\n", self.title);
        for (origin, line) in lines {
            text.push_str(&format!("{line} # {origin}\n"));
        }
        if text.len() as u64 > trusted::LARGEST {
            let why = format!("they are more than {} bytes long", trusted::LARGEST);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn unfinished(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        PathBuf::from(name)
    }
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsaved::Bad(why) => why.fmt(f),
            Unsaved::Other => f.write_str("is of another source of peers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn lines() -> Last {
        let line = |number: u8| {
            let key = crate::key::PublicKey::new([number; 32]);
            let line = format!("10.0.0.{number} keys={key}");
            (format!("host{number}"), line)
        };
        (1..=3).map(line).collect()
    }

    #[test]
    fn what_is_stored_is_loaded_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved::new(&folder.path().join("lib/peers"), "etcd");
        assert!(matches!(saved.load(), Err(Unsaved::Bad(_))));
        for _ in 0..2 {
            saved.store(&lines()).unwrap();
            let (peers, loaded, age) = saved.load().unwrap();
            assert_eq!((peers.len(), loaded), (3, lines()));
            assert!(age < Duration::from_secs(60));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(saved.path()), 0o600);
        assert_eq!(mode(saved.path().parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(folder.path().join("lib")).unwrap().count(), 1);
        saved.store(&Last::new()).unwrap();
        assert!(saved.load().unwrap().0.is_empty());
    }

    #[test]
    fn what_is_of_others_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers");
        let saved = Saved::new(&path, "etcd");
        saved.store(&lines()).unwrap();
        let other = Saved::new(&path, "dns").load();
        assert!(matches!(other, Err(Unsaved::Other)));
        for mode in [0o622, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(saved.load(), Err(Unsaved::Bad(_))), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("10.0.0.2", "10.0.0.1")).unwrap();
        assert!(matches!(saved.load(), Err(Unsaved::Bad(_))));
        fs::write(&path, &text[..text.len() - 60]).unwrap();
        assert!(matches!(saved.load(), Err(Unsaved::Bad(_))), "cut");
    }

    #[test]
    fn who_goes_on_as_another_user_finds_a_folder_of_his_own() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib/peers");
        let user = 4321;
        let saved = Saved::new(&path, "etcd").written_by(Some(user));
        saved.prepare().unwrap();
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        assert_eq!(owner(path.parent().unwrap()), user);
        saved.store(&lines()).unwrap();
        chown(&path, Some(user), None).unwrap();
        assert_eq!(saved.load().unwrap().1, lines());
        let another = saved.written_by(Some(user + 1));
        assert!(matches!(another.load(), Err(Unsaved::Bad(_))));
        another.prepare().unwrap();
        assert_eq!(owner(path.parent().unwrap()), user, "it was there");
    }

    /// It could not be read again.
    #[test]
    fn what_is_too_long_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved::new(&folder.path().join("peers"), "etcd");
        saved.store(&lines()).unwrap();
        let long = "x".repeat(trusted::LARGEST as usize);
        assert!(saved.store(&[(String::new(), long)].into()).is_err());
        assert_eq!(saved.load().unwrap().1, lines());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// One that was killed has left its own.
    #[test]
    fn a_killed_writer_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved::new(&folder.path().join("peers"), "etcd");
        fs::write(saved.unfinished(), "half").unwrap();
        saved.store(&lines()).unwrap();
        assert_eq!(saved.load().unwrap().1, lines());
    }
}
