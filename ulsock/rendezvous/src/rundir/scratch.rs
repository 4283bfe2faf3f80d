//! A run directory of a test's own, removed with everything in it; and random numbers.

use super::RunDir;
use std::ops::Deref;
use std::path::PathBuf;

pub struct Scratch {
    pub path: PathBuf,
    dir: RunDir,
}

/// Numbers that are the same in every run (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

impl Scratch {
    pub fn new() -> Scratch {
        let name = format!("ulsock-test-{:016x}", os::random().unwrap());
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
