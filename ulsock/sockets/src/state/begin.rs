//! What a process gets with its first TCP socket: the family with its records, waiters, and a control state.
//!
//! Nothing of it is opened at load.

use crate::runtime::process;
use crate::runtime::signal;
use crate::state::control::{self, Control, Locked};
use crate::state::process_group::{self, ProcessGroup};
use os::log;
use rendezvous::rundir::{RunDir, RunDirError};
use shm::waiter;

/// The first TCP socket: opens the run directory and makes the family. Says once why it cannot.
pub fn begin() -> Option<&'static ProcessGroup> {
    if let Some(family) = process_group::own() {
        return Some(family);
    }
    if !process::is_on() {
        return None;
    }
    signal::fault::catch();
    let _control = Locked::wait()?;
    if process_group::own().is_some() || !process::is_on() {
        return process_group::own();
    }
    if let Err(problem) = open_everything() {
        let dir = process::config().run_dir.display();
        log::always(format_args!("{dir}: {problem}; staying on kernel TCP"));
        process::switch_off();
    }
    process_group::own()
}

fn open_everything() -> Result<(), String> {
    let dir = RunDir::open(&process::config().run_dir).map_err(|error| error.to_string())?;
    dir.may_write().map_err(|error| error.to_string())?;
    dir.sweep();
    let family =
        ProcessGroup::create(&dir).map_err(|errno| RunDirError::Write(errno).to_string())?;
    waiter::begin().ok_or("no memory for our tables")?;
    process::open_spinners(&dir);
    control::lock::set(Control::new(dir));
    process_group::set_own(family);
    Ok(())
}
