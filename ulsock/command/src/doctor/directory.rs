//! The run directory as `ulsock doctor` sees it: opened as the library does, then described.

use std::path::Path;

use crate::probe;
use rendezvous::rundir::{NEW, RunDir, RunDirError};
use rustix::fs::{fstat, fstatvfs};

/// Smaller than any table: what counts is that there is room for a file at all.
const TRIAL: u64 = 4096;

/// Owner, mode and free space; or why it cannot be used.
pub fn look(path: &Path) -> Result<String, RunDirError> {
    let directory = RunDir::open(path)?;
    // It has no lock once it is dropped, and goes with the next sweep.
    drop(
        directory
            .create_locked(NEW, TRIAL)
            .map_err(RunDirError::Write)?,
    );
    directory.sweep();
    probe::table_of_offers(&directory)?;
    let stat = fstat(&directory).map_err(RunDirError::Open)?;
    let space = fstatvfs(&directory).map_err(RunDirError::Open)?;
    Ok(format!(
        "owner {}, mode {:o}, {} MiB free",
        owner(stat.st_uid),
        stat.st_mode & 0o7777,
        (space.f_bavail * space.f_frsize) >> 20
    ))
}

/// Of the host that this is a container of, if its door is here.
pub fn host_daemon(path: &Path) -> Option<&'static str> {
    probe::host_daemon(&RunDir::open(path).ok()?)
}

fn owner(uid: u32) -> String {
    match uid {
        0 => "root".to_owned(),
        uid if uid == rustix::process::geteuid().as_raw() => format!("uid {uid} (this user)"),
        uid => format!("uid {uid}"),
    }
}
