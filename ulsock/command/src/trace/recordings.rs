//! The folder that the recordings of a run are in, for as long as the run is told of.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use trace::layout::{CHUNK, VARIABLE};
use trace::read::{self, Recording};

use crate::failure::Failure;

pub struct Recordings {
    folder: PathBuf,
    chunks: u32,
}

impl Recordings {
    /// Each with room for so many MiB.
    pub fn new(size: u32) -> Result<Recordings, Failure> {
        let failed = |error| Failure::setup(format!("no folder for the recording: {error}"));
        // Programs that change their folder find it all the same.
        let parent = std::path::absolute(std::env::temp_dir()).map_err(failed)?;
        let number = os::random().map_err(|error| failed(error.into()))?;
        let folder = parent.join(format!("ulsock-trace-{number:016x}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(failed)?;
        let chunks = size * ((1 << 20) / CHUNK as u32);
        Ok(Recordings { folder, chunks })
    }

    /// What the program's environment says about it.
    pub fn variable(&self) -> (&'static str, OsString) {
        let mut value = OsString::from(format!("{}:", self.chunks));
        value.push(&self.folder);
        (VARIABLE, value)
    }

    pub fn read(&self) -> Result<Vec<Recording>, Failure> {
        let failed = |error| Failure::work(format!("cannot read the recording: {error}"));
        read::folder(&self.folder)
            .map(|(found, _)| found)
            .map_err(failed)
    }
}

impl Drop for Recordings {
    fn drop(&mut self) {
        // Programs that live on have theirs mapped, and lose nothing but the name.
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("ulsock: {} stays: {error}", self.folder.display());
        }
    }
}
