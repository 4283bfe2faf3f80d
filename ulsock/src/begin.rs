//! What a process gets with its first TCP socket: the family with its records, waiters, and a control state.
//!
//! Nothing of it is opened at load.

use crate::control::{self, Control, Locked};
use crate::family::{self, Family};
use crate::log;
use crate::process;
use crate::rundir::{RunDir, RunDirError};
use crate::signal;
use crate::waiter;

/// The first TCP socket: opens the run directory and makes the family. Says once why it cannot.
pub fn begin() -> Option<&'static Family> {
    if let Some(family) = family::own() {
        return Some(family);
    }
    if !process::is_on() {
        return None;
    }
    signal::fault::catch();
    let _control = Locked::wait()?;
    if family::own().is_some() || !process::is_on() {
        return family::own();
    }
    if let Err(problem) = open_everything() {
        let dir = process::config().run_dir.display();
        log::always(format_args!("{dir}: {problem}; staying on kernel TCP"));
        process::switch_off();
    }
    family::own()
}

fn open_everything() -> Result<(), String> {
    let dir = RunDir::open(&process::config().run_dir).map_err(|error| error.to_string())?;
    dir.may_write().map_err(|error| error.to_string())?;
    dir.sweep();
    let family = Family::create(&dir).map_err(|errno| RunDirError::Write(errno).to_string())?;
    waiter::begin().ok_or("no memory for our tables")?;
    process::open_spinners(&dir);
    control::lock::set(Control::new(dir));
    family::set_own(family);
    Ok(())
}
