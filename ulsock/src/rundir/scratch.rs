//! A run directory of a test's own, removed with everything in it.

use super::RunDir;
use std::ops::Deref;
use std::path::PathBuf;

pub struct Scratch {
    pub path: PathBuf,
    dir: RunDir,
}

impl Scratch {
    pub fn new() -> Scratch {
        let name = format!("ulsock-test-{:016x}", crate::sys::random().unwrap());
        let path = std::env::temp_dir().join(name);
        let dir = RunDir::open(&path).unwrap();
        Scratch { path, dir }
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Deref for Scratch {
    type Target = RunDir;
    fn deref(&self) -> &RunDir {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
