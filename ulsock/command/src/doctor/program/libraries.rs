//! The libraries that a program is linked with, and where they are: as ld.so(8) looks for them, without running
//! anything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use os::is_regular;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

use super::calls;
use super::elf::{self, Elf, Kind, MOST_FOLDERS};

/// More than any program has.
const MOST: usize = 512;
const LONGEST_PATH: usize = 4096;
const CACHE: &str = "/etc/ld.so.cache";
const LARGEST_CACHE: u64 = 16 << 20;
/// In front of what the cache holds (glibc, sysdeps/generic/dl-cache.h).
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEAD: usize = 48;
const ENTRY: usize = 24;
/// A library for x86-64.
const OURS: u32 = 0x0303;
const FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// A library, by the name under which it is needed.
pub struct Library {
    pub name: String,
    /// Nothing, if it was not found.
    pub elf: Option<Elf>,
}

/// Where to look: in our own files, or in those of a process that has others.
pub struct View {
    root: Option<OwnedFd>,
    /// What LD_LIBRARY_PATH names.
    searched: Vec<PathBuf>,
}

impl View {
    /// As for a program that is started here.
    pub fn own() -> View {
        let list = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        View {
            root: None,
            searched: searched(&list),
        }
    }

    /// As for a process, which may have another root than ours, and with its own LD_LIBRARY_PATH.
    pub fn of_process(root: Option<&Path>, list: &OsStr) -> io::Result<View> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |root| openat(CWD, root, flags, Mode::empty());
        Ok(View {
            root: root.map(open).transpose()?,
            searched: searched(list),
        })
    }

    /// A plain file. To open anything else could do anything, and who chose the name may want just that: it is looked
    /// at first. No link leads out of the other root.
    fn open(&self, path: &Path) -> Option<File> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = match &self.root {
            None => openat(CWD, path, flags, Mode::empty()),
            Some(root) => openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT),
        };
        let found = found.ok()?;
        is_regular(&fstat(&found).ok()?).then_some(())?;
        File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()
    }

    fn read(&self, path: &Path) -> Option<(PathBuf, Elf)> {
        match elf::read(&self.open(path)?, &calls::asked()) {
            Some(Kind::Bits64(elf)) => Some((path.to_owned(), elf)),
            _ => None,
        }
    }
}

fn searched(list: &OsStr) -> Vec<PathBuf> {
    let folders = std::env::split_paths(list).filter(|it| it.is_absolute());
    folders
        .filter(|it| is_short(it))
        .take(MOST_FOLDERS)
        .collect()
}

fn is_short(path: &Path) -> bool {
    path.as_os_str().len() < LONGEST_PATH
}

/// Where whoever needs a library wants it to be looked for; the same for all that it needs.
type Folders = Rc<[PathBuf]>;

/// All that the program needs, and that those need.
pub fn of(program: &Elf, path: &Path, view: &View) -> Vec<Library> {
    let cache = Cache::read(view);
    let mut libraries = Vec::new();
    let mut queue = Queue::default();
    queue.add(program, path, &[]);
    while let Some((name, folders)) = queue.waiting.pop_front() {
        let mut found = cache.find(&name, &folders, view);
        if let Some((path, elf)) = &mut found {
            queue.add(elf, path, &folders);
            // No longer needed, and much if it is meant to be.
            (elf.needed, elf.folders) = (Vec::new(), Vec::new());
        }
        let elf = found.map(|(_, elf)| elf);
        libraries.push(Library { name, elf });
    }
    libraries
}

/// Those that are to be looked at, each once.
#[derive(Default)]
struct Queue {
    seen: HashSet<String>,
    waiting: VecDeque<(String, Folders)>,
}

impl Queue {
    /// What this one needs.
    fn add(&mut self, elf: &Elf, path: &Path, inherited: &[PathBuf]) {
        let folders = folders_of(elf, path, inherited);
        for name in &elf.needed {
            if self.seen.len() < MOST && self.seen.insert(name.clone()) {
                self.waiting.push_back((name.clone(), folders.clone()));
            }
        }
    }
}

fn folders_of(elf: &Elf, path: &Path, inherited: &[PathBuf]) -> Folders {
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let own = elf.folders.iter().map(|folder| {
        let folder = folder.replace("${ORIGIN}", &origin);
        PathBuf::from(folder.replace("$ORIGIN", &origin))
    });
    let all = own
        .filter(|it| is_short(it))
        .chain(inherited.iter().cloned());
    all.take(MOST_FOLDERS).collect()
}

/// Names of libraries, and where they are.
#[derive(Default)]
struct Cache(HashMap<String, PathBuf>);

impl Cache {
    fn read(view: &View) -> Cache {
        let mut bytes = Vec::new();
        let file = view.open(Path::new(CACHE));
        let read = file.map(|file| file.take(LARGEST_CACHE).read_to_end(&mut bytes));
        match read {
            Some(Ok(_)) => Cache::parse(&bytes).unwrap_or_default(),
            _ => Cache::default(),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Cache> {
        bytes.starts_with(MAGIC).then_some(())?;
        let number = |at: usize| {
            let bytes = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let text = |at: u32| {
            let rest = bytes.get(at as usize..)?;
            let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
            Some(String::from_utf8_lossy(&rest[..end]).into_owned())
        };
        let count = number(MAGIC.len())? as usize;
        let mut cache = Cache::default();
        // Its entries may all name the same long text.
        let mut left = bytes.len();
        for n in 0..count.min(bytes.len() / ENTRY) {
            let at = HEAD + n * ENTRY;
            if number(at) != Some(OURS) {
                continue;
            }
            let (name, path) = (text(number(at + 4)?)?, text(number(at + 8)?)?);
            let Some(rest) = left.checked_sub(name.len() + path.len()) else {
                break;
            };
            left = rest;
            cache.0.entry(name).or_insert(PathBuf::from(path));
        }
        Some(cache)
    }

    fn find(&self, name: &str, folders: &[PathBuf], view: &View) -> Option<(PathBuf, Elf)> {
        if name.contains('/') {
            return view.read(Path::new(name));
        }
        let mut named = folders.iter().chain(&view.searched);
        let found = named.find_map(|folder| view.read(&folder.join(name)));
        let found = found.or_else(|| view.read(self.0.get(name)?));
        found.or_else(|| {
            FOLDERS
                .iter()
                .find_map(|folder| view.read(&Path::new(folder).join(name)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn libraries_of_libraries_are_found() {
        let path = std::env::current_exe().unwrap();
        let root = Some(Path::new("/"));
        for view in [View::own(), View::of_process(root, OsStr::new("")).unwrap()] {
            let (path, elf) = view.read(&path).unwrap();
            let libraries = of(&elf, &path, &view);
            let libc = libraries.iter().find(|it| it.name == "libc.so.6");
            assert!(libc.expect("named").elf.is_some(), "it is there");
            assert!(libraries.len() >= elf.needed.len());
        }
    }

    #[test]
    fn a_process_is_seen_in_its_own_root() {
        let root = tempfile::tempdir().unwrap();
        let path = std::env::current_exe().unwrap();
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::copy(&path, root.path().join("lib/libreal.so")).unwrap();
        let link = |target, name| std::os::unix::fs::symlink(target, root.path().join(name));
        link(Path::new("/lib/libreal.so"), "lib/liblinked.so").unwrap();
        link(&path, "lib/libout.so").unwrap();
        let view = View::of_process(Some(root.path()), OsStr::new("")).unwrap();
        let program = Elf {
            needed: ["libreal.so", "liblinked.so", "libout.so", "libc.so.6"]
                .map(str::to_owned)
                .into(),
            ..Elf::default()
        };
        let libraries = of(&program, Path::new("/bin/program"), &view);
        let is_found = |name| {
            libraries
                .iter()
                .any(|it| it.name == name && it.elf.is_some())
        };
        assert!(is_found("libreal.so") && is_found("liblinked.so"));
        assert!(!is_found("libout.so") && !is_found("libc.so.6"));
    }

    #[test]
    fn only_plain_files_are_opened() {
        assert!(View::own().open(Path::new("/dev/zero")).is_none());
        assert!(View::own().open(Path::new("/")).is_none());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "$ORIGIN".repeat(2000);
        let elf = Elf {
            needed: (0..2 * MOST).map(|n| format!("lib{n}.so")).collect(),
            folders: [vec![long], vec!["$ORIGIN/lib".to_owned(); 100]].concat(),
            ..Elf::default()
        };
        let mut queue = Queue::default();
        queue.add(&elf, Path::new("/a/b/program"), &[]);
        queue.add(&elf, Path::new("/a/b/program"), &[]);
        assert_eq!((queue.seen.len(), queue.waiting.len()), (MOST, MOST));
        let (_, folders) = &queue.waiting[0];
        assert_eq!(folders.len(), MOST_FOLDERS);
        assert!(folders.iter().all(|it| it == Path::new("/a/b/lib")));
        assert!(Rc::ptr_eq(folders, &queue.waiting[1].1));
    }

    /// All entries of it have the same name of 4,000 bytes, and each another end of the path.
    #[test]
    fn a_cache_takes_no_more_memory_than_its_file() {
        let count = 1000;
        let texts = HEAD + count * ENTRY;
        let mut bytes = vec![0; texts];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[MAGIC.len()..][..4].copy_from_slice(&(count as u32).to_le_bytes());
        for n in 0..count {
            let entry = &mut bytes[HEAD + n * ENTRY..][..ENTRY];
            entry[..4].copy_from_slice(&OURS.to_le_bytes());
            entry[4..8].copy_from_slice(&((texts + n) as u32).to_le_bytes());
            entry[8..12].copy_from_slice(&(texts as u32).to_le_bytes());
        }
        bytes.resize(texts + 4000, b'x');
        bytes.push(0);
        let cache = Cache::parse(&bytes).unwrap();
        let kept = cache
            .0
            .iter()
            .map(|(name, path)| name.len() + path.as_os_str().len());
        assert!(cache.0.len() > 1 && kept.sum::<usize>() <= bytes.len());
    }

    #[test]
    fn any_cache_is_survived() {
        let target = bolero::check!().with_test_time(Duration::from_millis(300));
        target.for_each(|bytes: &[u8]| {
            Cache::parse(&[MAGIC, bytes].concat());
        });
    }
}
