//! Young connections among those that are polled.

use std::os::fd::RawFd;

use libc::timespec;

use crate::state::give_record::give_record;
use crate::state::process_group;
use crate::state::table::{self, Slot};
use crate::state::young;

/// Has there been any connection of ours?
#[inline]
pub fn are_any() -> bool {
    process_group::own().is_some() || young::are_used()
}

/// May a poll with this time sleep?
pub fn may_wait(time: Option<Option<timespec>>) -> bool {
    !matches!(time, Some(Some(time)) if time.tv_sec == 0 && time.tv_nsec == 0)
}

/// Who sleeps on a connection must be known to its record before that can have rings.
pub fn grow_up(fd: RawFd) {
    if let Slot::Young(_) = table::get(fd) {
        give_record(fd);
    }
}
