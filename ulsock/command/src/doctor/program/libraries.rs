//! The libraries that a program is linked with, and where they are: as ld.so(8) looks for them, without running
//! anything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf, Kind};

/// More than any program has.
const MOST: usize = 512;
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

/// All that the program needs, and that those need.
pub fn of(program: &Elf, path: &Path) -> Vec<Library> {
    let cache = Cache::read();
    let mut libraries = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut queue: VecDeque<(String, Vec<PathBuf>)> = wanted(program, path, &[]);
    while let Some((name, folders)) = queue.pop_front() {
        if libraries.len() >= MOST || !seen.insert(name.clone()) {
            continue;
        }
        let found = cache.find(&name, &folders);
        if let Some((path, elf)) = &found {
            queue.extend(wanted(elf, path, &folders));
        }
        let elf = found.map(|(_, elf)| elf);
        libraries.push(Library { name, elf });
    }
    libraries
}

/// Each with the folders that whoever needs it names.
fn wanted(elf: &Elf, path: &Path, inherited: &[PathBuf]) -> VecDeque<(String, Vec<PathBuf>)> {
    let origin = path.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let own = elf.folders.iter().map(|folder| {
        let folder = folder.replace("${ORIGIN}", &origin);
        PathBuf::from(folder.replace("$ORIGIN", &origin))
    });
    let folders: Vec<PathBuf> = own.chain(inherited.iter().cloned()).take(MOST).collect();
    let needed = elf.needed.iter().take(MOST);
    needed.map(|name| (name.clone(), folders.clone())).collect()
}

/// Names of libraries, and where they are.
#[derive(Default)]
struct Cache(HashMap<String, PathBuf>);

impl Cache {
    fn read() -> Cache {
        let bytes = match Path::new(CACHE).metadata() {
            Ok(data) if data.len() <= LARGEST_CACHE => std::fs::read(CACHE).unwrap_or_default(),
            _ => Vec::new(),
        };
        Cache::parse(&bytes).unwrap_or_default()
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
        for n in 0..count.min(bytes.len() / ENTRY) {
            let at = HEAD + n * ENTRY;
            if number(at) != Some(OURS) {
                continue;
            }
            let (name, path) = (text(number(at + 4)?)?, text(number(at + 8)?)?);
            cache.0.entry(name).or_insert(PathBuf::from(path));
        }
        Some(cache)
    }

    fn find(&self, name: &str, folders: &[PathBuf]) -> Option<(PathBuf, Elf)> {
        if name.contains('/') {
            return open(Path::new(name));
        }
        let by_variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let by_variable = std::env::split_paths(&by_variable).filter(|it| it.is_absolute());
        let mut named = folders.iter().cloned().chain(by_variable);
        let found = named.find_map(|folder| open(&folder.join(name)));
        let found = found.or_else(|| open(self.0.get(name)?));
        found.or_else(|| {
            FOLDERS
                .iter()
                .find_map(|folder| open(&Path::new(folder).join(name)))
        })
    }
}

fn open(path: &Path) -> Option<(PathBuf, Elf)> {
    path.metadata().ok()?.is_file().then_some(())?;
    match elf::read(&File::open(path).ok()?) {
        Some(Kind::Bits64(elf)) => Some((path.to_owned(), elf)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn libraries_of_libraries_are_found() {
        let path = std::env::current_exe().unwrap();
        let (path, elf) = open(&path).unwrap();
        let libraries = of(&elf, &path);
        let libc = libraries.iter().find(|it| it.name == "libc.so.6").unwrap();
        let imports = &libc.elf.as_ref().expect("it is there").imports;
        assert!(!imports.is_empty(), "libc takes some from its loader");
        assert!(libraries.len() >= elf.needed.len());
    }

    #[test]
    fn any_cache_is_survived() {
        let target = bolero::check!().with_test_time(Duration::from_millis(300));
        target.for_each(|bytes: &[u8]| {
            Cache::parse(&[MAGIC, bytes].concat());
        });
    }
}
